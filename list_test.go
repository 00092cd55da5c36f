package usftp_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func TestReadDir(t *testing.T) {
	r := newRig(t, sftptest.Script{Home: "/home"}, 0)
	r.server.Files.WriteFile("/home/d/b", []byte("four"))
	r.server.Files.WriteFile("/home/d/a", nil)
	r.server.Files.Mkdir("/home/d/c")
	r.server.Files.Symlink("b", "/home/d/l")
	for dir, want := range map[string][]string{
		"d":       {"d/a", "d/b", "d/c", "d/l"},
		"d/":      {"d/a", "d/b", "d/c", "d/l"},
		"/home/d": {"/home/d/a", "/home/d/b", "/home/d/c", "/home/d/l"},
		".":       {"d"},
		"":        {"d"},
		"/":       {"/home"},
		"d/c":     nil,
	} {
		files, err := r.ReadDir(dir)
		if err != nil || !slices.Equal(names(files), want) {
			t.Errorf("ReadDir(%q) = %v, %v, want %v", dir, names(files), err, want)
		}
		for _, f := range files {
			if f.IsOpen() || !f.AttrsCached() {
				t.Errorf("%s: open %v, attributes %v", f.Name(), f.IsOpen(), f.AttrsCached())
			}
			if f.BaseName() == "b" && (f.Size() != 4 || !f.IsRegular() ||
				f.DirEntry().Name() != "b" || f.Info().Name() != "b") {
				t.Errorf("%v", f.Info())
			}
			if f.BaseName() == "l" && f.Mode().Type() != fs.ModeSymlink {
				t.Errorf("the link has mode %v", f.Mode())
			}
		}
	}
	if _, err := r.ReadDir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	if n := r.server.OpenHandles(); n != 0 {
		t.Errorf("%d handles are open", n)
	}
}

func TestListedFileOpens(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0)
	r.server.Files.WriteFile("/d/a", []byte("hello"))
	files := must[[]*usftp.File](t)(r.ReadDir("/d"))
	f := files[0]
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Read of a closed file: %v", err)
	}
	ok(t, f.OpenRead())
	if err := f.OpenRead(); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("opened twice: %v", err)
	}
	p := make([]byte, 10)
	if n, err := f.Read(p); string(p[:n]) != "hello" || err != nil {
		t.Errorf("%q, %v", p[:n], err)
	}
	ok(t, f.Close())
	ok(t, f.OpenRead())
	ok(t, f.Close())
}

// TestEntriesStopsEarly: breaking the loop closes the directory, even with many requests in flight.
func TestEntriesStopsEarly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{ReaddirNames: 3}, 10*time.Millisecond,
			usftp.WithServerVersion(openSSH))
		for i := range 300 {
			r.server.Files.WriteFile(fmt.Sprintf("/d/%03d", i), nil)
		}
		n := 0
		for f, err := range r.Entries("/d") {
			if err != nil || f == nil {
				t.Fatal(err)
			}
			if n++; n == 150 {
				break
			}
		}
		must[fs.FileInfo](t)(r.Stat("/d")) // after everything that was sent before
		if n := r.server.OpenHandles(); n != 0 {
			t.Errorf("%d handles are open", n)
		}
	})
}

func TestListingPipelines(t *testing.T) {
	const rtt = 50 * time.Millisecond
	for _, test := range []struct {
		version  string
		min, max float64
	}{
		{openSSH, 3, 20},
		{"", 101, 103},
	} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(test.version))
			for i := range 9_950 {
				r.server.Files.WriteFile(fmt.Sprintf("/d/file number %d", i), nil)
			}
			var files []*usftp.File
			took := trips(rtt, func() { files = must[[]*usftp.File](t)(r.ReadDir("/d")) })
			if len(files) != 9_950 {
				t.Errorf("%d files", len(files))
			}
			if took < test.min || took > test.max {
				t.Errorf("version %q: %.1f round trips for 100 packets of names", test.version,
					took)
			}
			seen := map[string]bool{}
			for _, f := range files {
				seen[f.Name()] = true
			}
			if len(seen) != 9_950 {
				t.Errorf("%d different names", len(seen))
			}
		})
	}
}

// A directory whose names fit one packet takes one round trip after OPENDIR, and a larger one few
// more.
func TestListingRoundTrips(t *testing.T) {
	const rtt = 100 * time.Millisecond
	for entries, most := range map[int]float64{0: 3, 1: 2, 90: 2, 190: 3, 900: 5} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(openSSH))
			r.server.Files.Mkdir("/d")
			for i := range entries {
				r.server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
			}
			before := r.Stats().Requests
			took := trips(rtt, func() {
				if files, err := r.ReadDir("/d"); err != nil || len(files) != entries {
					t.Errorf("%d files, %v", len(files), err)
				}
			})
			asked := r.Stats().Requests - before
			if took > most || most == 2 && asked > 4 { // OPENDIR, two READDIRs, CLOSE
				t.Errorf("%d entries: %d requests in %v round trips", entries, asked, took)
			}
		})
	}
}

// The end may overtake names that were asked for before it.
func TestListingWhoseEndComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeReaddir,
			Do: sftptest.Delay(time.Second)}}}, 0, usftp.WithServerVersion(openSSH))
		r.server.Files.WriteFile("/d/f", nil)
		if files, err := r.ReadDir("/d"); err != nil || len(files) != 1 {
			t.Errorf("%d files, %v", len(files), err)
		}
	})
}

func TestBadListings(t *testing.T) {
	listing := func(fault sftptest.Fault) sftptest.Script {
		fault.On = wire.TypeReaddir
		return sftptest.Script{ReaddirNames: 10, Faults: []sftptest.Fault{fault}}
	}
	for name, test := range map[string]struct {
		script sftptest.Script
		files  int // at least
		is     func(error) bool
	}{
		"endless": {sftptest.Script{ReaddirNames: 10, EndlessReaddir: true}, 50,
			isProtocolError},
		"no names ever": {listing(sftptest.Fault{Do: sftptest.NoNames()}), 0, isProtocolError},
		"no names once": {listing(sftptest.Fault{Skip: 1, Times: 1, Do: sftptest.NoNames()}), 50,
			func(err error) bool { return err == nil }},
		"fails halfway": {listing(sftptest.Fault{Skip: 2,
			Do: sftptest.Refuse(wire.PermissionDenied, "enough")}), 18,
			func(err error) bool { return errors.Is(err, fs.ErrPermission) }},
		"cut off": {listing(sftptest.Fault{Skip: 2, Do: sftptest.Hangup()}), 18,
			func(err error) bool {
				return errors.Is(err, usftp.ErrSSHFxConnectionLost) ||
					err != nil
			}},
		"one packet": {sftptest.Script{ReaddirNames: 1 << 20}, 50,
			func(err error) bool { return err == nil }},
		"two NULs": {listing(sftptest.Fault{Skip: 1,
			Do: sftptest.ReplyBytes("\x00\x00\x00\x05\x68\x00\x00\x00\x01")}), 0,
			func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.script, 0)
			for i := range 50 {
				r.server.Files.WriteFile(fmt.Sprintf("/d/%d", i), nil)
			}
			files, err := r.ReadDir("/d")
			if !test.is(err) || len(files) < test.files || len(files) > 1000 {
				t.Errorf("%d files, %v", len(files), err)
			}
			if isProtocolError(err) {
				must[fs.FileInfo](t)(r.Stat("/d/1"))
			}
		})
	}
}

// isProtocolError reports whether an error is only about the contents of a reply, so that the
// connection stays usable.
func isProtocolError(err error) bool {
	var broken *usftp.ProtocolError
	return errors.As(err, &broken) && !errors.Is(err, net.ErrClosed)
}

// TestEvilNames: entries that a server lists must lie in the directory.
func TestEvilNames(t *testing.T) {
	for _, name := range []string{"", "a/b", "/etc/passwd", "../x", "a\x00b"} {
		reply := wire.Names{Names: []wire.Name{{Filename: "fine"}, {Filename: name}}}
		r := newRig(t, sftptest.Script{Intercept: func(request sftptest.Request) []sftptest.Action {
			if request.Type != wire.TypeReaddir {
				return nil
			}
			return []sftptest.Action{sftptest.ReplyBytes(string(reply.Append(nil, request.ID)))}
		}}, 0)
		files, err := r.ReadDir("/")
		if len(files) != 1 || err == nil {
			t.Errorf("%q: %v, %v", name, names(files), err)
		}
		reply.Names = reply.Names[1:]
		if found, err := r.Glob("/*"); err == nil {
			t.Errorf("%q: Glob finds %q", name, found)
		}
	}
}

func TestListingIsCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeReaddir, Times: 1,
			Do: sftptest.Drop()}}}, 0)
		r.server.Files.WriteFile("/d/a", nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := r.WithContext(ctx).ReadDir("/d")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if files, err := r.ReadDir("/d"); len(files) != 1 || err != nil {
			t.Errorf("the next one: %v, %v", names(files), err)
		}
	})
}

// TestReadDirOfManyEntries: 100,000 entries over 50 ms, from a server that works in order, in less
// than 3 s.
func TestReadDirOfManyEntries(t *testing.T) {
	const n, rtt = 100_000, 50 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt, usftp.WithServerVersion(openSSH))
		for i := range n {
			r.server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
		}
		took := trips(rtt, func() {
			if files := must[[]*usftp.File](t)(r.ReadDir("/d")); len(files) != n {
				t.Errorf("%d entries", len(files))
			}
		})
		if took >= 60 {
			t.Errorf("%v round trips", took)
		}
	})
}

// TestListingAllocates: an entry allocates its File and its name, nothing more.
func TestListingAllocates(t *testing.T) {
	client := startServer(t, usftp.WithServerVersion(openSSH))
	dir := t.TempDir()
	const n = 1_000
	first := dir + "/file number 0"
	ok(t, os.WriteFile(first, nil, 0o600))
	for i := 1; i < n; i++ { // names of one file, which are made faster than files
		ok(t, os.Link(first, fmt.Sprintf("%s/file number %d", dir, i)))
	}
	allocs := testing.AllocsPerRun(3, func() {
		for _, err := range client.Entries(dir) {
			ok(t, err)
		}
	})
	if allocs > 2.2*n {
		t.Errorf("%v allocations an entry", allocs/n)
	}
}

func TestReadDirLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{ReaddirNames: 5}, 100*time.Millisecond)
		for i := range 100 {
			r.server.Files.WriteFile(fmt.Sprintf("/d/%d", i), nil)
		}
		n := 0
		files, err := r.ReadDirLimit("/d", 0, func(f *usftp.File) (accept, stop bool) {
			n++
			return n%2 == 0, n == 20
		})
		if len(files) != 10 || err != nil {
			t.Error(len(files), err)
		}
		files, err = r.ReadDirLimit("/d", time.Second, nil)
		if len(files) == 0 || len(files) == 100 || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(len(files), err)
		}
		ok(t, files[0].OpenRead()) // with the client's context, not that of the time limit
	})
}

// TestListingOfWhatMayOnlyBeRead: OpenSSH's server leaves out everything in a directory that may be
// read but not searched. That is an error, and no empty directory.
func TestListingOfWhatMayOnlyBeRead(t *testing.T) {
	for look, want := range map[wire.Code]error{wire.PermissionDenied: fs.ErrPermission,
		wire.NoSuchFile: nil, wire.Failure: nil, wire.OK: nil} {
		r := newRig(t, sftptest.Script{Intercept: func(request sftptest.Request) []sftptest.Action {
			switch {
			case request.Type == wire.TypeReaddir:
				return []sftptest.Action{sftptest.Refuse(wire.EOF, "")}
			case request.Type == wire.TypeLstat && request.Path == "/d/." && look != wire.OK:
				return []sftptest.Action{sftptest.Refuse(look, "")}
			}
			return nil
		}}, 0)
		r.server.Files.WriteFile("/d/f", nil)
		for _, dir := range []string{"/d", "/d/"} {
			files, err := r.ReadDir(dir)
			if len(files) > 0 || !errors.Is(err, want) {
				t.Errorf("LSTAT is answered %v: %v, %v", look, names(files), err)
			}
			var path *fs.PathError
			if want != nil && (!errors.As(err, &path) || path.Path != dir) {
				t.Errorf("the error is %v", err)
			}
		}
	}
}

// TestListingOfALongPath: OpenSSH's server leaves out names whose path is longer than a system call
// takes, so that a directory where there may be such names is listed with an error.
func TestListingOfALongPath(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	client := startServer(t, usftp.WithServerVersion(openSSH))
	dir := root.Name() + "/"
	deepest := root
	for len(dir) < 3600 {
		name := strings.Repeat("d", 200)
		if err := deepest.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		below, err := deepest.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		defer below.Close()
		deepest, dir = below, dir+name+"/"
	}
	for _, c := range []struct {
		length int // of the directory's path
		names  int // of two
	}{{3839, 2}, {3840, 1}} {
		name := strings.Repeat("e", c.length-len(dir))
		long := name + "/" + strings.Repeat("f", 255)
		if err := errors.Join(deepest.Mkdir(name, 0o755), deepest.WriteFile(name+"/short", nil, 0o600),
			deepest.WriteFile(long, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		files, err := client.ReadDir(dir + name)
		if len(files) != c.names || (err == nil) != (c.names == 2) {
			t.Errorf("%d bytes: %d names, %v", c.length, len(files), err)
		}
	}
}

// Some servers end a listing with a NAME that holds no names, again and again.
func TestListingThatEndsWithoutNames(t *testing.T) {
	for _, version := range []string{openSSH, ""} {
		var asked atomic.Int64
		r := newRig(t, sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
			if q.Type == wire.TypeReaddir && asked.Add(1) > 1 {
				return []sftptest.Action{sftptest.NoNames()}
			}
			return nil
		}}, 0, usftp.WithServerVersion(version))
		r.server.Files.WriteFile("/d/a", nil)
		r.server.Files.WriteFile("/d/b", nil)
		if files, err := r.ReadDir("/d"); err != nil || len(files) != 2 {
			t.Errorf("%d files, %v", len(files), err)
		}
	}
}

// TestReadDirLimitWithASlowFilter: the timeout ends the listing also while names are at hand.
func TestReadDirLimitWithASlowFilter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, 0)
		for i := range 50 {
			r.server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
		}
		files, err := r.ReadDirLimit("/d", 10*time.Second, func(*usftp.File) (accept, stop bool) {
			time.Sleep(time.Second)
			return true, false
		})
		if len(files) < 9 || len(files) > 11 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d files, %v", len(files), err)
		}
	})
}
