//go:build unix

package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestInterruptedAtAPipe: a copy whose source or target is a named pipe ends when told to, both
// with nobody at the other end and with an idle peer.
func TestInterruptedAtAPipe(t *testing.T) {
	t.Parallel()
	for _, direction := range []way{upload, download} {
		for _, company := range []bool{false, true} {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			b.server.Files.WriteFile("/big", random(1<<20))
			pipe := filepath.Join(b.dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			openOther := func() {
				other, err := os.OpenFile(pipe, os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { other.Close() })
			}
			if company {
				openOther()
			}
			source, target := pipe, "/target"
			if direction == download {
				source, target = "/big", pipe
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := b.jobContext(ctx, direction, source, target)
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v, company %v: %v", direction, company, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%v, company %v: it does not end", direction, company)
			}
			if left := b.temporaries(); len(left) > 0 || b.server.Files.Exists("/target") {
				t.Errorf("left behind: %v", left)
			}
			// nobody should wait for it after the test
			openOther()
		}
	}
}

// TestPipeWithoutAName: /dev/stdout and what a shell makes of >(program) lead to pipes, to which no
// path leads. Nothing but the contents goes into them.
func TestPipeWithoutAName(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	want := random(1 << 20)
	b.server.Files.WriteFile("/file", want)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	name := fmt.Sprintf("/dev/fd/%d", w.Fd())
	arrived := make(chan []byte, 1)
	go func() {
		got, _ := io.ReadAll(r)
		arrived <- got
	}()
	j := copyJob{Host: b.host, Direction: download, Source: "/file", Target: name}
	j.Options.Preserve, j.Options.Owners = true, true
	result, err := j.Run(t.Context())
	w.Close()
	if got := <-arrived; err != nil || !bytes.Equal(got, want) || result.Target != name {
		t.Errorf("%d of %d bytes arrived, as %q: %v", len(got), len(want), result.Target, err)
	}
}

// TestPipeReconnects: what a pipe was given is not given to it again over another connection, as an
// [io.Writer] is not.
func TestPipeReconnects(t *testing.T) {
	script := sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead, Skip: 100, Times: 1,
		Do: sftptest.Hangup()}}}
	b := newBench(t, script, sftptest.LinkConfig{})
	b.host.Redial = func(context.Context) (pool.Host, error) {
		b.reconnect(sftptest.LinkConfig{})
		return b.host, nil
	}
	want := random(40 << 20)
	b.server.Files.WriteFile("/file", want)
	pipe := filepath.Join(b.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan []byte, 1)
	go func() {
		got, _ := os.ReadFile(pipe)
		arrived <- got
	}()
	r, err := b.job(download, "/file", pipe, func(j *copyJob) { j.Options.Retries = 1 })
	if got := <-arrived; err != nil || !bytes.Equal(got, want) || r.Resumed == 0 {
		t.Errorf("%d of %d bytes arrived: %+v, %v", len(got), len(want), r, err)
	}
}

// TestResumeIntoAPipe: what an interrupted copy left is not gone on with where there is a pipe now.
func TestResumeIntoAPipe(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	want := random(8 << 20)
	b.server.Files.WriteFile("/file", want)
	pipe := filepath.Join(b.dir, "pipe")
	b.server.AddFaults(sftptest.Fault{On: wire.TypeRead, Skip: 20, Times: 1, Do: sftptest.Hangup()})
	options := func(j *copyJob) {
		j.Options.Resume, j.Options.Journal = true, filepath.Join(b.dir, "journal")
	}
	if _, err := b.job(download, "/file", pipe, options); err == nil {
		t.Fatal("it was not interrupted")
	}
	b.reconnect(sftptest.LinkConfig{})
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan []byte, 1)
	go func() {
		got, _ := os.ReadFile(pipe)
		arrived <- got
	}()
	_, err := b.job(download, "/file", pipe, options)
	if got := <-arrived; err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes arrived: %v", len(got), len(want), err)
	}
}

// TestPipeIsReadOnce: what has been read from a pipe is not there again, so a copy from one fails
// if the connection is lost, and leaves nothing that looks complete.
func TestPipeIsReadOnce(t *testing.T) {
	b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite, Skip: 3, Times: 1,
		Do: sftptest.Hangup()}}}, sftptest.LinkConfig{})
	b.host.Redial = func(context.Context) (pool.Host, error) {
		b.reconnect(sftptest.LinkConfig{})
		return b.host, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		w.Write(random(8 << 20))
		w.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = b.jobContext(ctx, upload, fmt.Sprintf("/dev/fd/%d", r.Fd()), "/target",
		func(j *copyJob) { j.Options.Retry = onceMore })
	if err == nil || ctx.Err() != nil || b.server.Files.Exists("/target") {
		t.Errorf("it ended with %v", err)
	}
}

// TestPipeWhereNothingIsRenamed: it is not needed again either where a host turns out to rename no
// files.
func TestPipeWhereNothingIsRenamed(t *testing.T) {
	b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{}, Faults: []sftptest.Fault{
		{On: wire.TypeRename, Do: sftptest.Refuse(wire.PermissionDenied, "")}}},
		sftptest.LinkConfig{})
	b.server.Files.Mkdir("/dir")
	pipe, want := filepath.Join(b.dir, "pipe"), random(1<<20)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go os.WriteFile(pipe, want, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := b.jobContext(ctx, upload, pipe, "/dir")
	if err != nil || result.Target != "/dir/pipe" || !bytes.Equal(b.remote("/dir/pipe"), want) {
		t.Errorf("%+v, %v", result, err)
	}
	if left := b.temporaries(); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
