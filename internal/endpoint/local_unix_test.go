//go:build unix

package endpoint_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/internal/testenv"
)

// realDir returns a directory whose path has no link.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := endpoint.Local{}.RealPath(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// writesLocal opens files of this machine to be written.
func writesLocal(t *testing.T) endpointtest.Write {
	return func(name string, flag int) (endpoint.Writer, error) {
		in, err := os.OpenRoot(filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { in.Close() })
		base := filepath.Base(name)
		f, err := in.OpenFile(base, flag, 0o600)
		return &endpoint.LocalWriter{File: f, In: in, Base: base, Quirks: new(quirks.Quirks)},
			err
	}
}

func TestLocal(t *testing.T) {
	endpointtest.Run(t, func(t *testing.T) *endpointtest.Fixture {
		dir := realDir(t)
		return &endpointtest.Fixture{Place: endpoint.Local{}, Opener: endpoint.Local{},
			Write: writesLocal(t), Dir: dir, Raw: true, Disk: endpointtest.Directory(t, dir)}
	})
}

// A stream has nothing but refusals.
func TestStream(t *testing.T) {
	var p endpoint.Place = endpoint.Stream{}
	if _, _, ok := p.Identity("x"); ok || p.Base("x") != "" || p.Join("a", "b") != "b" ||
		p.Volume("x") != [2]uint64{} {
		t.Error("it has a name")
	}
	for what, err := range map[string]error{
		"List": p.List("x", nil, nil, func(string, endpoint.Info, error) bool {
			t.Error("something is listed")
			return true
		}),
		"WriteSmall": p.WriteSmall("x", nil, endpoint.Create), "Remove": p.Remove("x", false),
		"Stat": second(p.Stat("x")), "Lstat": second(p.Lstat("x")),
		"ReadLink": second(p.ReadLink("x")), "RealPath": second(p.RealPath("x")),
		"Mark": second(p.Mark("x")), "Below": second(p.Below("x")),
		"Open":      second(endpoint.Stream{}.Open(t.Context(), "x", 0)),
		"ReadWhole": endpoint.Stream{}.ReadWhole(t.Context(), "x", 0, nil, nil),
	} {
		if !errors.Is(err, endpoint.ErrStream) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := p.ReadSmall("x", 1); !errors.Is(err, endpoint.ErrStream) {
		t.Errorf("ReadSmall: %v", err)
	}
}

// What is read from a stream is read once, and may tell its size.
func TestReadStream(t *testing.T) {
	for want, r := range map[int64]io.Reader{7: strings.NewReader("a stream"[1:]),
		-1: io.MultiReader(strings.NewReader("a stream"[1:]))} {
		f, err := endpoint.Stream{Reader: r}.Open(t.Context(), "-", 0)
		if err != nil {
			t.Fatal(err)
		}
		now, err := f.Stat()
		if is := f.Info(); is.Size != want || is.IsRegular() || now != *is || err != nil {
			t.Errorf("it is %+v, want %d bytes: %v", is, want, err)
		}
		for what, err := range map[string]error{"ReadAt": second(f.ReadAt(make([]byte, 1), 0)),
			"Again": second(f.Again(t.Context()))} {
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s: %v", what, err)
			}
		}
		got := make([]byte, 2)
		io.ReadFull(f, got)
		if _, err := f.Seek(-1, io.SeekCurrent); (err == nil) != (want > 0) {
			t.Errorf("Seek: %v", err)
		}
		rest, err := io.ReadAll(f)
		if all := string(got) + string(rest); err != nil || f.Close() != nil ||
			!strings.HasSuffix(all, "stream") {
			t.Errorf("%q: %v", all, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestNoPipeIsWaitedFor: a named pipe that took a file's place is opened, or refused, at once.
func TestNoPipeIsWaitedFor(t *testing.T) {
	pipe := filepath.Join(realDir(t), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	in := endpoint.FilesIn(filepath.Dir(pipe), new(quirks.Quirks))
	defer in.Close()
	opened := make(chan error, 2)
	for _, flag := range []int{os.O_WRONLY, os.O_RDONLY} {
		go func() {
			f, err := in.OpenFile(pipe, flag, 0)
			if err == nil {
				f.Close()
			}
			opened <- err
		}()
		select {
		case <-opened:
		case <-time.After(testenv.Patience(t)):
			t.Fatalf("flags %#x: it waits", flag)
		}
	}
}

// TestOpenInNamesThePath: the error of a file below a root has the whole path, as those of other
// files.
func TestOpenInNamesThePath(t *testing.T) {
	dir := realDir(t)
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := endpoint.Local{}.Below(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, err = endpoint.OpenIn(t.Context(), root.(*endpoint.LocalRoot), "dir/none")
	if path, ok := errors.AsType[*fs.PathError](err); !ok ||
		path.Path != filepath.Join(dir, "dir/none") {
		t.Errorf("the error is %v", err)
	}
}
