//go:build unix

package usftp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/usftp/usftp"
)

// An osFile has what [os.File] and [usftp.File] have in common.
type osFile interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.WriterAt
	io.ReaderFrom
	io.WriterTo
	io.Closer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// errorKind is what programs look at in an error.
func errorKind(err error) string {
	switch {
	case err == nil || err == io.EOF:
		return fmt.Sprint(err)
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	case errors.Is(err, fs.ErrExist):
		return "exists"
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	}
	return "failed"
}

// TestFileIsAnOSFile: any sequence of calls has the results that it has with an [os.File].
func TestFileIsAnOSFile(t *testing.T) {
	for _, opts := range [][]usftp.ClientOption{nil, {usftp.WithWriteBehind(1 << 16)},
		{usftp.WithReadAhead(0), usftp.WithMaxPacket(1000)},
		{usftp.WithWriteBehind(1 << 20), usftp.WithMaxPacket(777)}} {
		client := startServer(t, opts...)
		for seed := range uint64(25) {
			likeOSFile(t, client, seed)
		}
	}
}

// likeOSFile makes the same calls of a file on this machine and of one on the server.
func likeOSFile(t *testing.T, client *usftp.Client, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	theirs, ours := t.TempDir()+"/f", t.TempDir()+"/f"
	if rng.IntN(4) > 0 {
		data := noise(rng.IntN(5000))
		ok(t, os.WriteFile(theirs, data, 0o644))
		ok(t, os.WriteFile(ours, data, 0o644))
	}
	flag := []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR}[rng.IntN(4)]
	for _, f := range []int{os.O_CREATE, os.O_CREATE, os.O_APPEND, os.O_TRUNC, os.O_EXCL} {
		if rng.IntN(3) == 0 {
			flag |= f
		}
	}
	a, wanted := os.OpenFile(theirs, flag, 0o644)
	b, err := client.OpenFile(ours, flag, 0o644)
	if errorKind(err) != errorKind(wanted) {
		t.Errorf("seed %d: OpenFile with %#x: %v, want %v", seed, flag, err, wanted)
	}
	if err != nil || wanted != nil {
		return
	}
	calls := fmt.Sprintf("seed %d: OpenFile with %#x", seed, flag)
	for range 60 {
		s := rng.Uint64()
		call, want := callFile(a, rand.New(rand.NewPCG(s, 2)), flag)
		_, got := callFile(b, rand.New(rand.NewPCG(s, 2)), flag)
		calls += ", " + call
		if got != want {
			t.Fatalf("%s\n%.300s\nwant\n%.300s", calls, got, want)
		}
	}
	// calls of closed files
	ok(t, a.Close())
	ok(t, b.Close())
	for range 5 {
		s := rng.Uint64()
		call, want := callFile(a, rand.New(rand.NewPCG(s, 2)), os.O_RDONLY)
		_, got := callFile(b, rand.New(rand.NewPCG(s, 2)), os.O_RDONLY)
		if call != "Stat" && flag&os.O_APPEND == 0 && got != want {
			t.Errorf("%s, Close, %s: %s, want %s", calls, call, got, want)
		}
	}
	want, err := os.ReadFile(theirs)
	ok(t, err)
	got, err := os.ReadFile(ours)
	ok(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s\nthe file has %d bytes, want %d", calls, len(got), len(want))
	}
}

// callFile makes a random call of a file, and returns the call and its results.
func callFile(f osFile, rng *rand.Rand, flag int) (call, results string) {
	n := 1 + rng.IntN(3000)
	if rng.IntN(4) == 0 {
		n = 1 + rng.IntN(3)
	}
	p, off := make([]byte, n), int64(rng.IntN(6000)-50)
	var m int
	var long int64
	var err error
	var buf bytes.Buffer
	switch rng.IntN(12) {
	case 0, 1:
		m, err = f.Read(p)
		call = fmt.Sprintf("Read(%d)", n)
	case 2, 3:
		m, err = f.ReadAt(p, off)
		call = fmt.Sprintf("ReadAt(%d, %d)", n, off)
	case 4, 5:
		m, err = f.Write(noise(n))
		return fmt.Sprintf("Write(%d)", n), fmt.Sprint(m, errorKind(err))
	case 6:
		m, err = f.WriteAt(noise(n), off)
		return fmt.Sprintf("WriteAt(%d, %d)", n, off), fmt.Sprint(m, errorKind(err))
	case 7, 8:
		whence := []int{io.SeekStart, io.SeekCurrent, io.SeekEnd, 7}[rng.IntN(4)]
		if whence != io.SeekStart {
			off -= 3000
		}
		long, err = f.Seek(off, whence)
		call = fmt.Sprintf("Seek(%d, %d)", off, whence)
	case 9:
		long, err = f.ReadFrom(io.LimitReader(bytes.NewReader(noise(n+5)), int64(n)))
		call = fmt.Sprintf("ReadFrom(%d)", n)
	case 10:
		long, err = f.WriteTo(&buf)
		call = "WriteTo"
	case 11:
		if rng.IntN(2) == 0 && flag&(os.O_WRONLY|os.O_RDWR) != 0 { // SETSTAT needs no open file
			return fmt.Sprintf("Truncate(%d)", off), errorKind(f.Truncate(off))
		}
		info, err := f.Stat()
		if err != nil {
			return "Stat", errorKind(err)
		}
		return "Stat", fmt.Sprint(info.Size(), info.Mode(), info.Name(), info.IsDir())
	}
	return call, fmt.Sprint(m, long, errorKind(err), p[:m], buf.String())
}
