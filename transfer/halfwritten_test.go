package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestHalfWrittenInPlace: a file that was written in place and lost its connection on the way is
// copied again, though its size is the source's, and its time is the source's, or not compared.
func TestHalfWrittenInPlace(t *testing.T) {
	for _, size := range []int{10_000, 9 << 20} {
		for _, keepsTimes := range []bool{true, false} {
			t.Run(fmt.Sprint(size, keepsTimes), func(t *testing.T) {
				testHalfWritten(t, size, keepsTimes)
			})
		}
	}
}

func testHalfWritten(t *testing.T, size int, keepsTimes bool) {
	var lose, deny atomic.Bool // the server's goroutines read them
	lose.Store(true)
	half := random(size)
	copy(half[size/2:], make([]byte, size))
	b := newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		switch {
		case renames(r), !keepsTimes && (r.Type == wire.TypeSetstat || r.Type == wire.TypeFsetstat):
			return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
		case r.Type == wire.TypeWrite && r.Path == "/in/dir/file" && lose.Load():
			return []sftptest.Action{sftptest.Hangup()}
		case r.Type == wire.TypeOpen && r.Path == "/in/dir/file" && deny.Load():
			return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
		}
		return nil
	}}, sftptest.LinkConfig{})
	source := filepath.Join(b.dir, "in")
	fill(t, source, "dir/other")
	b.server.Files.WriteFile("/in/dir/file", bytes.Repeat([]byte("o"), size/2))
	data := random(size)
	b.local("in/dir/file", data)
	journal := filepath.Join(b.dir, "journal")
	run := func() error {
		j := &syncJob{direction: upload, far: b.host, src: source, dst: "/in"}
		j.options.Journal, j.options.NoLock = journal, true
		_, err := j.run(t)
		return err
	}
	if err := run(); err == nil {
		t.Fatal("it was not interrupted")
	}
	lose.Store(false)
	// as if the second half of the requests had been carried out, and the first had not
	b.server.Files.WriteFile("/in/dir/file", half)
	when := time.Unix(1_700_000_000, 0)
	if err := errors.Join(os.Chtimes(filepath.Join(source, "dir/file"), when, when),
		b.server.Files.SetModTime("/in/dir/file", when)); err != nil {
		t.Fatal(err)
	}
	b.reconnect(sftptest.LinkConfig{})
	deny.Store(true)
	if err := run(); err == nil {
		t.Error("a run that must not write the file succeeds")
	}
	deny.Store(false)
	if err := run(); err != nil || !bytes.Equal(b.remote("/in/dir/file"), data) {
		t.Errorf("the next run ends with %v and leaves the half file: %v", err,
			bytes.Equal(b.remote("/in/dir/file"), half))
	}
	if left, _ := filepath.Glob(filepath.Join(journal, "*.file.json")); len(left) > 0 {
		t.Errorf("the journal still has %q", left)
	}
}
