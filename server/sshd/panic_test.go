package sshd

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// brokenFS panics when a file is described.
type brokenFS struct{ *memfs.FS }

func (brokenFS) Stat(context.Context, string) (fs.FileInfo, error) { panic("the files are broken") }

// A panic in what a program gives the server ends the connection that it concerns, and is logged
// with its stack. All others go on, the user can log in again, and the server can be closed.
func TestPanicEndsItsConnection(t *testing.T) {
	stat := func(client *ssh.Client) {
		channel, err := sftp(client)
		if err == nil {
			channel.Write(wire.PathRequest{Type: wire.TypeStat, Path: "/"}.Append(nil, 1))
			receive(channel)
		}
	}
	broken := func() (server.FS, server.Policy, error) {
		return brokenFS{memfs.New(0)}, server.Policy{}, nil
	}
	for name, test := range map[string]struct {
		change func(config *Config, access *Access)
		use    func(client *ssh.Client)
	}{
		"SFTP": {func(_ *Config, access *Access) { access.Open = broken }, stat},
		"SCP": {func(_ *Config, access *Access) { access.Open = broken },
			func(client *ssh.Client) {
				if session, err := client.NewSession(); err == nil {
					session.Stdin = strings.NewReader("\x00\x00\x00")
					session.Run("scp -f /f")
				}
			}},
		"Open": {func(_ *Config, access *Access) {
			access.Open = func() (server.FS, server.Policy, error) { panic("Open is broken") }
		}, stat},
		"Password": {func(config *Config, _ *Access) {
			config.Password = func(ssh.ConnMetadata, string) (*Access, error) {
				panic("Password is broken")
			}
		}, nil},
		"Events": {func(config *Config, _ *Access) {
			config.Events = func(e server.Event) {
				if e.Kind == server.LoggedIn {
					panic("Events is broken")
				}
			}
		}, stat},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log syncBuffer
				access := &Access{FS: memfs.New(0)}
				config := onlyPassword(access)
				config.BanRules = BanRules{AddressFailures: 1}
				config.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := newServer(t, config)
				other := mustConnect(t, s)
				spoiled, wrong := config, *access
				wrong.FS = nil
				wrong.Open = func() (server.FS, server.Policy, error) {
					return access.FS, server.Policy{}, nil
				}
				spoiled.Password = onlyPassword(&wrong).Password
				test.change(&spoiled, &wrong)
				if err := s.Reload(spoiled); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if client, err := connect(s, ssh.Password("secret")); err == nil {
						test.use(client)
						if err := client.Wait(); err == nil {
							t.Error("the connection ended in order")
						}
					}
				}
				if err := s.Reload(config); err != nil {
					t.Fatal(err)
				}
				for _, client := range []*ssh.Client{other, mustConnect(t, s)} {
					if _, err := sftp(client); err != nil {
						t.Errorf("another connection: %v", err)
					}
				}
				if text := log.String(); strings.Count(text, "is broken")+
					strings.Count(text, "are broken") < 3 || !strings.Contains(text, "panic_test.go") {
					t.Errorf("the log has no panic: %s", text)
				}
			})
		})
	}
}

type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}
