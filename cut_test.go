package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// session is what a cut connection interrupts: a bit of everything. It says how far it came, and
// what failed.
func shortSession(client *usftp.Client, old, fresh []byte) (done int, err error) {
	for _, step := range []func() error{
		func() error {
			got, err := client.ReadFile("/old")
			if err == nil && !bytes.Equal(got, old) {
				return fmt.Errorf("ReadFile gave %d bytes of %d and no error", len(got), len(old))
			}
			return err
		},
		func() error {
			files, err := client.ReadDir("/d")
			if err == nil && len(files) != 5 {
				return fmt.Errorf("ReadDir gave %d names and no error", len(files))
			}
			return err
		},
		func() error {
			f, err := client.OpenFile("/part", os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			n, err := f.ReadFrom(bytes.NewReader(fresh))
			if err == nil && n != int64(len(fresh)) {
				return fmt.Errorf("ReadFrom took %d bytes and no error", n)
			}
			return errors.Join(err, f.Close())
		},
		func() error {
			f, err := client.OpenFile("/more", os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			w := f.Writer()
			for rest := fresh; len(rest) > 0; rest = rest[min(100, len(rest)):] {
				if _, err := w.Write(rest[:min(100, len(rest))]); err != nil {
					return errors.Join(err, f.Close())
				}
			}
			return errors.Join(f.Sync(), f.Close())
		},
		func() error { return client.PosixRename("/part", "/old") },
	} {
		if err := step(); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// TestCutAfterEveryByte: a connection that breaks, or ends, after any number of bytes of either
// way. Every call ends with an error that says that the connection did, nothing that was said to be
// done is missing, and the target is the old one or the new one.
func TestCutAfterEveryByte(t *testing.T) {
	old, fresh := noise(1500), noise(1700)
	run := func(t *testing.T, cut func(client, server *sftptest.End)) (toServer, toClient int64) {
		bubble(t, func(t *testing.T) {
			server := sftptest.NewScripted(sftptest.Script{})
			server.Files.WriteFile("/old", old)
			for i := range 5 {
				server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
			}
			clientEnd, serverEnd := sftptest.NewLink(sftptest.LinkConfig{ToServer: time.Millisecond,
				ToClient: time.Millisecond})
			served := make(chan error, 1)
			go func() { served <- server.Serve(serverEnd) }()
			cut(clientEnd, serverEnd)
			began := time.Now()
			count := sftptest.NewCounter(clientEnd)
			client, err := usftp.NewClientPipe(count, count, usftp.WithMaxPacket(512),
				usftp.WithServerVersion(openSSH),
				usftp.WithKeepalive(func(context.Context) error { return errors.New("nobody there") }))
			done := 0
			if err == nil {
				done, err = shortSession(client, old, fresh)
				client.Close()
				if out := usftp.PoolOut(client); out != 0 {
					t.Errorf("%d bytes of the pool are out", out)
				}
				stats := client.Stats()
				toServer, toClient = stats.BytesWritten, stats.BytesRead
			}
			clientEnd.Close()
			serverEnd.Close() // to which the client may have fallen silent
			<-served
			synctest.Wait()
			if err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("step %d: %v", done, err)
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("step %d: it took %v", done, took)
			}
			got, _ := server.Files.ReadFile("/old")
			if !bytes.Equal(got, fresh) && (done == 5 || !bytes.Equal(got, old)) {
				t.Errorf("after %d steps the target has %d bytes that are neither the old nor the new", done, len(got))
			}
			if more, _ := server.Files.ReadFile("/more"); done >= 4 && !bytes.Equal(more, fresh) {
				t.Errorf("after %d steps, what was synced has %d bytes", done, len(more))
			}
		})
		return toServer, toClient
	}
	toServer, toClient := run(t, func(_, _ *sftptest.End) {})
	if t.Failed() || toServer < 3000 || toClient < 3000 {
		t.Fatalf("the whole session has %d and %d bytes", toServer, toClient)
	}
	ways := []func(n int64) func(client, server *sftptest.End){
		func(n int64) func(_, _ *sftptest.End) {
			return func(c, _ *sftptest.End) {
				c.CutAfter(n,
					nil)
			}
		},
		func(n int64) func(_, _ *sftptest.End) {
			return func(_, s *sftptest.End) {
				s.CutAfter(n,
					nil)
			}
		},
		func(n int64) func(_, _ *sftptest.End) { return func(_, s *sftptest.End) { s.SilenceAfter(n) } },
		func(n int64) func(_, _ *sftptest.End) { return func(c, _ *sftptest.End) { c.SilenceAfter(n) } },
	}
	for way, cut := range ways {
		total := []int64{toServer, toClient, toClient, toServer}[way]
		for n := int64(way); n < total; n += 3 {
			run(t, cut(n))
			if t.Failed() {
				t.Fatalf("way %d, after %d of %d bytes", way, n, total)
			}
		}
	}
}
