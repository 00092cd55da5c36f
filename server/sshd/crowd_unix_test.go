//go:build unix

package sshd

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/server/memfs"
)

// crowded is a listener that has no descriptors for every other connection.
type crowded struct{ left int }

func (c *crowded) Accept() (net.Conn, error) {
	switch c.left--; {
	case c.left < 0:
		return nil, net.ErrClosed
	case c.left%2 == 0:
		return nil, syscall.EMFILE
	}
	ours, theirs := net.Pipe()
	ours.Close()
	return address{theirs}, nil
}

func (c *crowded) Close() error   { return nil }
func (c *crowded) Addr() net.Addr { return nil }

// TestLogCannotBeFilledByACrowd: clients that use up all descriptors, and free some again and again,
// do not cause a line each time.
func TestLogCannotBeFilledByACrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		config := onlyPassword(&Access{FS: memfs.New(0)})
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s := newServer(t, config)
		if err := s.Serve(&crowded{left: 1000}); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		synctest.Wait()
		lines := strings.Count(log.text.String(), "cannot accept connections")
		if lines < 10 || lines > int(lograte.Lines.Burst)+5 {
			t.Errorf("%d lines", lines)
		}
	})
}
