package sshd

import (
	"errors"
	"io"
	"testing"

	"golang.org/x/crypto/ssh"
)

// An eagerChannel is one to a client that closes it as soon as it sees the end of the data, as
// OpenSSH's and PuTTY's do. Once a channel is closed, nothing more is sent on it.
type eagerChannel struct {
	ssh.Channel
	closed bool
	status []byte
}

func (c *eagerChannel) CloseWrite() error {
	c.closed = true
	return nil
}

func (c *eagerChannel) Close() error { return c.CloseWrite() }

func (c *eagerChannel) SendRequest(name string, _ bool, payload []byte) (bool, error) {
	if c.closed {
		return false, io.EOF
	}
	if name == "exit-status" {
		c.status = payload
	}
	return false, nil
}

func (c *eagerChannel) Stderr() io.ReadWriter {
	return struct {
		io.Reader
		io.Writer
	}{Writer: io.Discard}
}

// TestExitStatusOfAnEagerClient: a client learns how its program ended even if it closes the
// channel at the end of the data. Otherwise plink, for one, takes a failure for success.
func TestExitStatusOfAnEagerClient(t *testing.T) {
	l := &login{}
	for name, test := range map[string]struct {
		want byte
		run  func(ssh.Channel)
	}{
		"a shell":   {1, func(c ssh.Channel) { filesOnly(t.Context(), c) }},
		"a mistake": {1, func(c ssh.Channel) { l.complain(c, errors.New("no such flag")) }},
		"SFTP":      {0, func(c ssh.Channel) { (&exiting{Channel: c}).Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			c := &eagerChannel{}
			if test.run(c); len(c.status) != 4 || c.status[3] != test.want {
				t.Errorf("the exit status is %v, want %d", c.status, test.want)
			}
		})
	}
}
