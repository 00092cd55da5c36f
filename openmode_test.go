package usftp_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestOtherWay: a file that is open for reading only is not written, and the other way round. No
// server is asked: OpenSSH's says that there is no such file.
func TestOtherWay(t *testing.T) {
	p := []byte("data")
	type call func(f, other *usftp.File) (int64, error)
	counted := func(n int, err error) (int64, error) { return int64(n), err }
	reads := map[string]call{
		"Read":    func(f, _ *usftp.File) (int64, error) { return counted(f.Read(p)) },
		"ReadAt":  func(f, _ *usftp.File) (int64, error) { return counted(f.ReadAt(p, 0)) },
		"WriteTo": func(f, _ *usftp.File) (int64, error) { return f.WriteTo(io.Discard) },
		"ReadRange": func(f, _ *usftp.File) (int64, error) {
			r := f.ReadRange(0, 1)
			defer r.Close()
			return counted(r.Read(p))
		},
		"CopyRange": func(f, other *usftp.File) (int64, error) { return f.CopyRange(0, 1, other, 0) },
		"Async": func(f, _ *usftp.File) (int64, error) {
			return counted(f.Async().ReadAt(p, 0).Wait())
		},
	}
	writes := map[string]call{
		"Write":    func(f, _ *usftp.File) (int64, error) { return counted(f.Write(p)) },
		"WriteAt":  func(f, _ *usftp.File) (int64, error) { return counted(f.WriteAt(p, 0)) },
		"ReadFrom": func(f, _ *usftp.File) (int64, error) { return f.ReadFrom(bytes.NewReader(p)) },
		"Writer":   func(f, _ *usftp.File) (int64, error) { return counted(f.Writer().Write(p)) },
		"CopyRange": func(f, other *usftp.File) (int64, error) {
			return other.CopyRange(0, 1, f, 0)
		},
		"Async": func(f, _ *usftp.File) (int64, error) {
			return counted(f.Async().WriteAt(p, 0).Wait())
		},
	}
	for _, behind := range []int64{0, 1 << 20} {
		r := newRig(t, sftptest.Script{}, 0, usftp.WithWriteBehind(behind))
		r.server.Files.WriteFile("/f", []byte("contents"))
		r.server.Files.WriteFile("/other", []byte("contents"))
		for flag, calls := range map[int]map[string]call{os.O_WRONLY: reads, os.O_RDONLY: writes} {
			f := must[*usftp.File](t)(r.OpenFile("/f", flag, 0))
			other := must[*usftp.File](t)(r.OpenFile("/other", os.O_RDWR, 0))
			before := len(r.server.Requests())
			for name, call := range calls {
				if n, err := call(f, other); n != 0 || !errors.Is(err, fs.ErrInvalid) ||
					errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %d, %v", name, n, err)
				}
			}
			if after := len(r.server.Requests()); after > before {
				t.Errorf("%d requests were sent", after-before)
			}
			ok(t, f.Close())
			ok(t, other.Close())
		}
	}
}

// javaServer refuses to make a file that is to be read only, as Apache MINA does, and ends the
// session when a file is opened to be appended to and also read or emptied, as Maverick does.
// Neither empties a file that is opened to be read.
func javaServer(r sftptest.Request) []sftptest.Action {
	const create, empty = wire.OpenCreate, wire.OpenTruncate
	switch {
	case r.Type != wire.TypeOpen:
	case r.Flags&(wire.OpenRead|empty) != 0 && r.Flags&wire.OpenAppend != 0:
		return []sftptest.Action{sftptest.Hangup()}
	case r.Flags&(create|wire.OpenWrite) == create:
		return []sftptest.Action{sftptest.Refuse(wire.NoSuchFile, "")}
	case r.Flags&(empty|wire.OpenWrite) == empty:
		return []sftptest.Action{sftptest.Refuse(wire.Failure, "it would stay as it is")}
	}
	return nil
}

// TestReadAndAppend: where both together end the session, appended data still goes to the end.
func TestReadAndAppend(t *testing.T) {
	r := newRig(t, sftptest.Script{Intercept: javaServer}, 0,
		usftp.WithServerVersion("SSH-2.0-MaverickSynergy"))
	r.server.Files.WriteFile("/log", []byte("one"))
	f := must[*usftp.File](t)(r.OpenFile("/log", os.O_RDWR|os.O_APPEND, 0))
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("WriteAt does not fail")
	}
	must[int](t)(f.Write([]byte(" two")))
	other := must[*usftp.File](t)(r.OpenFile("/log", os.O_WRONLY, 0))
	must[int](t)(other.WriteAt([]byte(" three"), int64(len("one two"))))
	must[int](t)(f.Write([]byte(" four")))
	data := make([]byte, 100)
	n, err := f.ReadAt(data, 0)
	if err != io.EOF || string(data[:n]) != "one two three four" {
		t.Errorf("the file has %q, %v", data[:n], err)
	}
}

// TestAppendOnlyWhatIsWritten: a file that is only read is not opened to be appended to, which a
// server may refuse, or take for writing alone, as AsyncSSH does.
func TestAppendOnlyWhatIsWritten(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/log", []byte("one"))
	ok(t, must[*usftp.File](t)(r.OpenFile("/log", os.O_RDONLY|os.O_APPEND, 0)).Close())
	if asked := r.server.Requests(wire.TypeOpen); len(asked) != 1 || asked[0].Flags != wire.OpenRead {
		t.Errorf("asked %v", asked)
	}
}

// TestAppendWithoutAnEnd: where only the end of the file says where appended data goes, nothing is
// written without it.
func TestAppendWithoutAnEnd(t *testing.T) {
	for name, write := range map[string]func(f *usftp.File) error{
		"Write":    func(f *usftp.File) error { _, err := f.Write([]byte("x")); return err },
		"ReadFrom": func(f *usftp.File) error { _, err := f.ReadFrom(strings.NewReader("x")); return err },
		"Writer":   func(f *usftp.File) error { _, err := f.Writer().Write([]byte("x")); return err },
	} {
		r := newRig(t, sftptest.Script{Intercept: javaServer, Faults: []sftptest.Fault{
			{On: wire.TypeFstat, Do: sftptest.Refuse(wire.Failure, "")}}}, 0,
			usftp.WithServerVersion("SSH-2.0-MaverickSynergy"))
		r.server.Files.WriteFile("/log", []byte("one"))
		f := must[*usftp.File](t)(r.OpenFile("/log", os.O_RDWR|os.O_APPEND, 0))
		if err := write(f); !errors.Is(err, usftp.ErrSSHFxFailure) {
			t.Errorf("%s: %v", name, err)
		}
		ok(t, f.Close())
		if data := must[[]byte](t)(r.server.Files.ReadFile("/log")); string(data) != "one" {
			t.Errorf("%s: the file has %q", name, data)
		}
	}
}

// opens counts the OPENs that were sent.
func opens(r *rig) (n int) {
	for _, request := range r.server.Requests() {
		if request.Type == wire.TypeOpen {
			n++
		}
	}
	return n
}

// TestEmptyAndAppend: nor does emptying a file that is then appended to end the session there.
func TestEmptyAndAppend(t *testing.T) {
	r := newRig(t, sftptest.Script{Intercept: javaServer}, 0,
		usftp.WithServerVersion("SSH-2.0-MaverickSynergy"))
	r.server.Files.WriteFile("/log", []byte("old"))
	f := must[*usftp.File](t)(r.OpenFile("/log", os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0))
	must[int](t)(f.Write([]byte("one")))
	ok(t, r.server.Files.Append("/log", []byte(" two")))
	must[int](t)(f.Write([]byte(" three")))
	ok(t, f.Close())
	if data, err := r.server.Files.ReadFile("/log"); string(data) != "one two three" {
		t.Errorf("the file has %q, %v", data, err)
	}
}

// TestPrivateFromTheStart: where the mode in OPEN is ignored, a new file for its owner alone is made
// private before anything is written to it. Nothing is set of a file that may be another's.
func TestPrivateFromTheStart(t *testing.T) {
	for version, sets := range map[string]wire.Type{"SSH-2.0-MaverickSynergy": wire.TypeFsetstat,
		"SSH-2.0-Erlang/4.15.2": wire.TypeSetstat} {
		for flag, want := range map[int]bool{os.O_EXCL: true, 0: false} {
			private := false
			r := newRig(t, sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
				switch {
				case q.Type == sets:
					private = q.Attrs.Permissions == 0o600
				case q.Type == wire.TypeFsetstat: // Erlang's looks for the name in another directory
					return []sftptest.Action{sftptest.Refuse(wire.NoSuchFile, "no such file")}
				case q.Type == wire.TypeWrite && private != want:
					t.Errorf("%s: private: %t, not %t", version, private, want)
				}
				return nil
			}}, 0, usftp.WithServerVersion(version))
			f := must[*usftp.File](t)(r.OpenFile("/secret", os.O_WRONLY|os.O_CREATE|flag, 0o600))
			must[int](t)(f.Write([]byte("data")))
			ok(t, f.Close())
		}
	}
}

// erlangServer opens files as file:open of Erlang does, which knows reading, writing and appending,
// and empties a file that is only to be written.
func erlangServer(r sftptest.Request, files func() *sftptest.Files) []sftptest.Action {
	if r.Type != wire.TypeOpen {
		return nil
	}
	const others = wire.OpenRead | wire.OpenAppend | wire.OpenExclusive
	switch old, err := files().ReadFile(r.Path); {
	case err != nil || len(old) == 0:
	case r.Flags&(others|wire.OpenWrite) == wire.OpenWrite:
		files().WriteFile(r.Path, nil)
	case r.Flags&wire.OpenTruncate != 0:
		return []sftptest.Action{sftptest.Refuse(wire.Failure, "it would stay as it is")}
	}
	return nil
}

// TestOpenOnErlang: a file is emptied there only if it is to be, and then always.
func TestOpenOnErlang(t *testing.T) {
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
		for _, more := range []int{0, os.O_TRUNC, os.O_CREATE, os.O_CREATE | os.O_TRUNC, os.O_APPEND,
			os.O_APPEND | os.O_TRUNC} {
			var r *rig
			r = newRig(t, sftptest.Script{SharedHandles: 1, Extensions: []wire.ExtensionPair{},
				Intercept: func(q sftptest.Request) []sftptest.Action {
					return erlangServer(q, func() *sftptest.Files { return r.server.Files })
				}}, 0, usftp.WithServerVersion("SSH-2.0-Erlang/4.15.2"))
			r.server.Files.WriteFile("/f", []byte("contents"))
			want := "contents"
			if more&os.O_TRUNC != 0 {
				want = ""
			}
			f := must[*usftp.File](t)(r.OpenFile("/f", flag|more, 0o644))
			if flag != os.O_RDONLY {
				must[int](t)(f.Write([]byte("new ")))
				if more&os.O_APPEND != 0 {
					want += "new "
				} else {
					want = "new " + want[min(len(want), 4):]
				}
			}
			if flag == os.O_RDWR {
				got := make([]byte, 20)
				if n, err := f.ReadAt(got, 0); string(got[:n]) != want {
					t.Errorf("%#x: read %q, %v, not %q", flag|more, got[:n], err, want)
				}
			}
			ok(t, f.Close())
			if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); string(got) != want {
				t.Errorf("%#x: the file has %q, not %q", flag|more, got, want)
			}
		}
	}
}

// TestEmptyWhereOneIsOpen: opening a file twice, one time after the other, takes its turn where
// only one may be open. O_EXCL empties nothing.
func TestEmptyWhereOneIsOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{SharedHandles: 1}, 0,
			usftp.WithServerVersion("SSH-2.0-Erlang/4.15.2"))
		share(t, r)
		ok(t, r.WriteFile("/f", []byte("contents"), 0o644))
		opening := r.Async().OpenFile("/f", os.O_RDWR|os.O_TRUNC, 0)
		f, err := opening.Wait()
		ok(t, err)
		must[int](t)(f.Write([]byte("new")))
		ok(t, f.Close())
		r.OpenFile("/f", os.O_RDWR|os.O_TRUNC|os.O_CREATE|os.O_EXCL, 0o644)
		if got := must[[]byte](t)(r.server.Files.ReadFile("/f")); string(got) != "new" {
			t.Errorf("the file has %q", got)
		}
	})
}

// TestMakeToRead: a file can be made and opened for reading alone, as flock(1) does it, where that
// takes permission to write.
func TestMakeToRead(t *testing.T) {
	r := newRig(t, sftptest.Script{Intercept: javaServer, Extensions: []wire.ExtensionPair{}}, 0)
	for _, flag := range []int{0, os.O_EXCL} {
		r.server.Files.Remove("/lock")
		f := must[*usftp.File](t)(r.OpenFile("/lock", os.O_RDONLY|os.O_CREATE|flag, 0o600))
		if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
			t.Errorf("the file is %v, %v", info, err)
		}
		if _, err := f.Write([]byte("x")); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("writing to it: %v", err)
		}
		ok(t, f.Close())
	}
	r.server.Files.WriteFile("/lock", []byte("text"))
	ok(t, must[*usftp.File](t)(r.OpenFile("/lock", os.O_RDONLY|os.O_TRUNC, 0)).Close())
	if info, err := r.Stat("/lock"); err != nil || info.Size() != 0 {
		t.Errorf("the emptied file is %v, %v", info, err)
	}
	before := opens(r)
	_, err := r.OpenFile("/missing/lock", os.O_RDONLY|os.O_CREATE, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its directory: %v", err)
	}
	// Apache MINA may give the handle of an open file to another one after an OPEN that failed.
	if n := opens(r) - before; n != 1 {
		t.Errorf("%d OPENs were sent", n)
	}
	only := newRig(t, sftptest.Script{NoReadWrite: true}, 0)
	ok(t, must[*usftp.File](t)(only.OpenFile("/lock", os.O_RDONLY|os.O_CREATE, 0o600)).Close())
}

// TestExclusiveWithoutCreate: O_EXCL alone means nothing, as in package os. The draft allows it with
// CREAT only, and servers of AsyncSSH and in Java open no file that exists with it.
func TestExclusiveWithoutCreate(t *testing.T) {
	r := newRig(t, sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
		if q.Type == wire.TypeOpen && q.Flags&wire.OpenExclusive != 0 {
			return []sftptest.Action{sftptest.Refuse(wire.Failure, "file exists")}
		}
		return nil
	}}, 0)
	r.server.Files.WriteFile("/f", []byte("text"))
	f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDWR|os.O_EXCL, 0))
	if data, err := io.ReadAll(f); string(data) != "text" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// TestMakeToReadWhatExists: a file that exists is opened for reading with O_CREATE, also where it
// cannot be written and the server says no more than FAILURE. Our server is not asked to write it,
// which would count as an upload.
func TestMakeToReadWhatExists(t *testing.T) {
	abandons := []wire.ExtensionPair{{Name: wire.ExtAbandon, Data: "1"}}
	for version, c := range map[string]struct {
		offered []wire.ExtensionPair
		want    int
	}{
		"SSH-2.0-other":   {[]wire.ExtensionPair{}, 2},
		"SSH-2.0-usftp_1": {[]wire.ExtensionPair{}, 1},
		"SSH-2.0-renamed": {abandons, 1},
	} {
		refuse := func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && r.Flags&wire.OpenWrite != 0 {
				return []sftptest.Action{sftptest.Refuse(wire.Failure, "Read-only file system")}
			}
			return nil
		}
		r := newRig(t, sftptest.Script{Extensions: c.offered, Intercept: refuse}, 0, usftp.WithServerVersion(version))
		r.server.Files.WriteFile("/f", []byte("text"))
		f := must[*usftp.File](t)(r.OpenFile("/f", os.O_RDONLY|os.O_CREATE, 0o600))
		if data, err := io.ReadAll(f); string(data) != "text" || err != nil {
			t.Errorf("%s: %q, %v", version, data, err)
		}
		if n := opens(r); n != c.want {
			t.Errorf("%s: %d OPENs", version, n)
		}
	}
}
