package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// Every failure is one sentence that names the file, the host and the cause, and leaves the target
// as it was.
func TestFailures(t *testing.T) {
	t.Parallel()
	const full = 300000
	up, down := upload, download
	for name, test := range map[string]struct {
		script         sftptest.Script
		direction      way
		source, target string // relative to the local directory if local
		is             error
		says           string
	}{
		"missing source up": {direction: up, source: "none", target: "/target",
			is: fs.ErrNotExist, says: "no such file"},
		"missing source down": {direction: down, source: "/none", target: "target",
			is: fs.ErrNotExist, says: "no such file"},
		"directory up": {direction: up, source: ".", target: "/target",
			is: transfer.ErrIsDirectory, says: "is a directory"},
		"directory down": {direction: down, source: "/dir", target: "target",
			is: transfer.ErrIsDirectory, says: "is a directory"},
		"missing target dir up": {direction: up, source: "source", target: "/none/target",
			is: fs.ErrNotExist, says: "none does not exist (mkdir -p makes it)"},
		"missing target dir down": {direction: down, source: "/source", target: "none/target",
			is: fs.ErrNotExist, says: "none does not exist (mkdir -p makes it)"},
		"slash behind nothing up": {direction: up, source: "source", target: "/none/",
			is: fs.ErrNotExist, says: "none does not exist (mkdir -p makes it)"},
		"slash behind a file up": {direction: up, source: "source", target: "/target/"},
		"slash behind a file down": {direction: down, source: "/source", target: "target/",
			says: "not a directory"},
		"directory in the way up": {direction: up, source: "source", target: "/holder",
			is: transfer.ErrIsDirectory},
		"directory in the way down": {direction: down, source: "/source", target: "holder",
			is: transfer.ErrIsDirectory},
		"full disk up": {script: sftptest.Script{FullAt: full}, direction: up, source: "source",
			target: "/target",
			is:     syscall.ENOSPC, says: "no space left on far"},
		"write refused": {script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite,
			Skip: 2, Do: sftptest.Refuse(wire.PermissionDenied, "quota")}}},
			direction: up, source: "source", target: "/target", is: fs.ErrPermission,
			says: `on far: permission denied (the server says "quota")`},
		"close fails": {script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeClose,
			Do: sftptest.Fail(wire.Failure, "object store is away")}}},
			direction: up, source: "source", target: "/target", says: "object store is away"},
		"read refused": {script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
			Skip: 2, Do: sftptest.Refuse(wire.Failure, "I/O error")}}},
			direction: down, source: "/source", target: "target", says: "I/O error"},
		"read with no data": {script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
			Skip: 2, Do: sftptest.ZeroData()}}},
			direction: down, source: "/source", target: "target",
			says: "answered READ with no data"},
		"shrinks up": {direction: up, source: "shrinking", target: "/target",
			is: transfer.ErrSourceChanged, says: "it shrank"},
		"grows up": {direction: up, source: "growing", target: "/target",
			is: transfer.ErrSourceChanged, says: "it grew"},
		"shrinks down": {direction: down, source: "/shrinking", target: "target",
			is: transfer.ErrSourceChanged, says: "it shrank"},
		"grows down": {direction: down, source: "/growing", target: "target",
			is: transfer.ErrSourceChanged, says: "it grew"},
		"closes midway": {script: sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead,
			Do: sftptest.Hangup()}}},
			direction: down, source: "/source", target: "target",
			says: "the server closed the SFTP connection"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, test.script, sftptest.LinkConfig{})
			data := random(2 << 20)
			for _, file := range []string{"source", "shrinking", "growing"} {
				b.local(file, data)
				b.server.Files.WriteFile("/"+file, data)
			}
			b.local("target", []byte("old"))
			b.server.Files.WriteFile("/target", []byte("old"))
			b.server.Files.Mkdir("/dir")
			b.server.Files.Mkdir("/holder/source")
			os.MkdirAll(filepath.Join(b.dir, "holder/source"), 0o755)
			source, target := test.source, test.target
			if test.direction == up {
				source = filepath.Join(b.dir, source)
			} else {
				target = b.dir + "/" + target
			}
			_, err := b.job(test.direction, source, target, func(j *copyJob) {
				j.Options.Events = func(e transfer.Event) {
					b.events = append(b.events, e)
					if e.Kind != transfer.Started {
						return
					}
					size := map[bool]int64{true: 1 << 20,
						false: 3 << 20}[strings.Contains(test.source, "shrinking")]
					if strings.Contains(test.source, "ing") {
						os.Truncate(source, size)
						b.server.Files.Resize(test.source, size)
					}
				}
			})
			var e *transfer.Error
			if !errors.As(err, &e) {
				t.Fatalf("the error is %v", err)
			}
			if name == "slash behind a file down" && runtime.GOOS == "windows" {
				test.says = "no such file" // it does not say why
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
			message := err.Error()
			if !strings.Contains(message, test.says) || !strings.Contains(message, "far:") ||
				!strings.Contains(message, filepath.Base(source)) ||
				strings.Contains(message, "\n") {
				t.Errorf("the message is %q, and should say %q", message, test.says)
			}
			if got := b.read("target"); string(got) != "old" {
				t.Errorf("the local target holds %d other bytes", len(got))
			}
			if got := b.remote("/target"); string(got) != "old" {
				t.Errorf("the remote target holds %d other bytes", len(got))
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if last := b.events[len(b.events)-1]; last.Kind != transfer.Failed ||
				last.Message != message {
				t.Errorf("the last event is %+v", last)
			}
		})
	}
}

// An interruption leaves what has arrived, truncated to the contiguous part, and says where.
func TestInterruptedUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate sftptest.Gate
		b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite,
			From: 3 * 261120, To: 4 * 261120, Do: sftptest.Hold(&gate)}}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/target", []byte("old"))
		ctx, cancel := context.WithCancel(t.Context())
		data := random(2 << 20)
		source := b.local("source", data)
		go func() {
			gate.Wait(1)
			synctest.Wait()
			cancel()
		}()
		result, err := b.jobContext(ctx, upload, source, "/target",
			func(j *copyJob) { j.Options.Journal = filepath.Join(b.dir, "journal") })
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "interrupted") {
			t.Errorf("the error is %v", err)
		}
		if result.LeftBehind == "" || !strings.Contains(err.Error(), result.LeftBehind) ||
			result.Bytes != 3*261120 {
			t.Fatalf("the result is %+v: %v", result, err)
		}
		if left := b.remote(result.LeftBehind); string(left) != string(data[:result.Bytes]) {
			t.Errorf("what is left has %d bytes, not the %d that are safe", len(left), result.Bytes)
		}
		if string(b.remote("/target")) != "old" {
			t.Error("the target has changed")
		}
		gate.Open()
	})
}

func TestInterruptedDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRead, Skip: 4,
			Do: sftptest.Drop()}}}, sftptest.LinkConfig{})
		data := random(2 << 20)
		b.server.Files.WriteFile("/source", data)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		result, err := b.jobContext(ctx, download, "/source",
			filepath.Join(b.dir, "target"),
			func(j *copyJob) { j.Options.Journal = filepath.Join(b.dir, "journal") })
		if !errors.Is(err, context.DeadlineExceeded) || result.LeftBehind == "" ||
			time.Since(began) != 5*time.Second {
			t.Fatalf("after %v: %+v, %v", time.Since(began), result, err)
		}
		left, err := os.ReadFile(result.LeftBehind)
		if err != nil || string(left) != string(data[:result.Bytes]) || result.Bytes != 4*261120 {
			t.Errorf("what is left has %d bytes, %v", len(left), err)
		}
	})
}

func TestConnectionLostMidway(t *testing.T) {
	b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeWrite, Skip: 5,
		Do: sftptest.Hangup()}}}, sftptest.LinkConfig{})
	b.server.Files.WriteFile("/target", []byte("old"))
	result, err := b.job(upload, b.local("source", random(4<<20)), "/target")
	if err == nil || result.LeftBehind == "" ||
		!strings.Contains(err.Error(), fmt.Sprintf("%d bytes of it are left in far:%s",
			result.Bytes, result.LeftBehind)) {
		t.Errorf("%+v, %v", result, err)
	}
	if string(b.remote("/target")) != "old" {
		t.Error("the target has changed")
	}
}

// A server that does not survive the listing of one directory: the user must know which to exclude.
func TestFatalDirectoryIsNamed(t *testing.T) {
	b := newBench(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeReaddir, Path: "/t/m",
		Do: sftptest.Hangup()}}}, sftptest.LinkConfig{})
	for _, dir := range []string{"/t", "/t/a", "/t/m", "/t/z"} {
		b.server.Files.Mkdir(dir)
	}
	_, err := b.tree(download, "/t", filepath.Join(b.dir, "target"))
	if err == nil || !strings.Contains(err.Error(), "while it listed /t/m") {
		t.Error(err)
	}
}

// Names from a server never choose a local path.
func TestNamesThatLeadElsewhere(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	b.server.Files.Mkdir("/dir")
	for _, source := range []string{"/dir/..", "..", ".", "/"} {
		if _, err := b.job(download, source, b.dir); err == nil {
			t.Errorf("%q was copied", source)
		}
	}
}

// A host without a client is an error, and not a panic that nobody can recover from.
func TestNoClient(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	for name, job := range map[string]copyJob{
		"up":          {Direction: upload, Source: source, Target: "/x"},
		"down":        {Direction: download, Source: "/x", Target: source + "2"},
		"relay, to":   {Direction: relay, From: b.host, Source: "/x", Target: "/y"},
		"relay, from": {Direction: relay, Host: b.host, Source: "/x", Target: "/y"},
	} {
		if _, err := job.Run(context.Background()); err == nil ||
			!strings.Contains(err.Error(), "has no Client") {
			t.Errorf("%s: %v", name, err)
		}
		tree := treeJob{Host: job.Host, From: job.From, Direction: job.Direction,
			Source: job.Source, Target: job.Target}
		if _, err := tree.Run(context.Background()); err == nil ||
			!strings.Contains(err.Error(), "has no Client") {
			t.Errorf("%s, tree: %v", name, err)
		}
	}
}

// What nothing has made is not called a Reader or a Writer.
func TestEmptyEndpoint(t *testing.T) {
	file := transfer.Local(filepath.Join(t.TempDir(), "f"))
	_, from := transfer.Copy(t.Context(), file, transfer.Endpoint{}, transfer.Options{})
	_, to := transfer.Copy(t.Context(), transfer.Endpoint{}, file, transfer.Options{})
	if from == nil || !strings.Contains(from.Error(), "made by Local, Remote or Reader") ||
		to == nil || !strings.Contains(to.Error(), "made by Local, Remote or Writer") {
		t.Errorf("got %v and %v", from, to)
	}
}

// The size of a source that cannot be opened is not known, and not 0.
func TestSizeOfMissingSource(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	if _, err := b.job(download, "/missing", filepath.Join(b.dir, "target")); err == nil {
		t.Error("it was copied")
	}
	for _, e := range b.events {
		if e.Size != -1 {
			t.Errorf("%+v", e)
		}
	}
}
