//go:build unix

package endpointtest

import (
	"errors"
	"os"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
)

// made are the flags to open a new file.
const made = os.O_RDWR | os.O_CREATE | os.O_EXCL

// stamp is the time that files are given.
var stamp = time.Unix(1_000_000_000, 0)

// writeCases are about files that are written.
var writeCases = map[string]func(s *scene){
	"finish": func(s *scene) {
		w := s.write("new", made)
		s.puts(w, contents[1000:], 1000)
		s.puts(w, contents[:1000], 0)
		f := endpoint.Finish{Own: true, Set: usftp.NewAttrs{SetMode: true, Mode: 0o640,
			SetTimes: true, Atime: stamp, Mtime: stamp}}
		done, err := w.Finish(s.Context(), &f)
		s.ok(errors.Join(err, done.NotSet))
		s.is("new", "= "+contents)
		unset := endpoint.Unset{Times: s.NoTimes, Modes: s.NoTimes}
		if mode, mtime := s.Disk.Attrs("new"); done.Unset != unset ||
			!s.NoTimes && (mode != 0o640 || !mtime.Equal(stamp)) {
			s.Errorf("it has %v of %v, %+v", mode, mtime, done)
		}
		if _, err := w.WriteAt([]byte("x"), 0); err == nil {
			s.Error("it is still open")
		}
	},

	"finish, with nothing to set": func(s *scene) {
		s.Disk.Write("file", "data")
		_, before := s.Disk.Attrs("file")
		w := s.write("file", os.O_WRONLY)
		done, err := w.Finish(s.Context(), &endpoint.Finish{})
		if s.ok(err); done != (endpoint.Finished{}) {
			s.Errorf("it is %+v", done)
		}
		s.is("file", "= data")
		if _, now := s.Disk.Attrs("file"); !now.Equal(before) {
			s.Errorf("it is of %v now and was of %v", now, before)
		}
	},

	"finish a shorter file": func(s *scene) {
		s.Disk.Write("file", "what was there before")
		w := s.write("file", os.O_WRONLY)
		s.puts(w, "new", 0)
		_, err := w.Finish(s.Context(), &endpoint.Finish{Truncate: true, Size: 3})
		if s.NoTimes { // it does not truncate either
			s.refused("it", err, endpoint.ErrNotTruncated)
			return
		}
		s.ok(err)
		s.is("file", "= new")
	},

	// A caller that asks for an owner must learn that it was not set, for instance before the file is
	// taken for a copy.
	"finish, with an owner that nobody may give": func(s *scene) {
		if os.Getuid() == 0 && !s.NoTimes { // everything is allowed
			return
		}
		w := s.write("new", made)
		s.puts(w, "new", 0)
		done, err := w.Finish(s.Context(), &endpoint.Finish{Own: true,
			Set: usftp.NewAttrs{SetOwner: true, UID: 1, GID: 1}})
		s.ok(err)
		s.refused("the owner", done.NotSet)
		s.is("new", "= new")
		if done.Times {
			s.Error("it is about times")
		}
	},

	"finish, flushed": func(s *scene) {
		w := s.write("new", made)
		s.puts(w, "new", 0)
		_, err := w.Finish(s.Context(), &endpoint.Finish{Flush: true})
		if !s.NoHard {
			s.ok(err)
		} else { // it has no fsync@openssh.com either
			s.refused("it", err, errors.ErrUnsupported)
			w.Abandon(s.Context())
		}
		s.is("new", "= new")
	},

	"keep": func(s *scene) {
		w := s.write("new", made)
		s.puts(w, "0123456789", 0)
		if ok, _ := w.Keep(s.Context(), 4); !ok {
			s.Fatal("it is not kept")
		}
		switch {
		case s.NoTimes: // it does not truncate either
			s.is("new", "= 0123456789")
			return
		case s.Whole:
			s.is("new", "")
			return
		}
		s.is("new", "= 0123")
		w = s.write("new", os.O_RDWR)
		s.puts(w, "abc", 4)
		_, err := w.Finish(s.Context(), &endpoint.Finish{})
		s.ok(err)
		s.is("new", "= 0123abc")
	},

	"abandon": func(s *scene) {
		w := s.write("new", made)
		s.puts(w, "new", 0)
		w.Abandon(s.Context())
		if _, err := w.WriteAt([]byte("x"), 0); err == nil {
			s.Error("it is still open")
		}
		s.ok(endpoint.IgnoreMissing(s.Place.Remove(s.at("new"), false)))
		s.is("new", "")
	},
}

// write opens a file for writing.
func (s *scene) write(name string, flag int) endpoint.Writer {
	s.Helper()
	w, err := s.Write(s.at(name), flag)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { w.Abandon(s.Context()) })
	return w
}

// puts writes all of data at an offset.
func (s *scene) puts(w endpoint.Writer, data string, off int64) {
	s.Helper()
	if n, err := w.WriteAt([]byte(data), off); n != len(data) || err != nil {
		s.Errorf("%d bytes are written: %v", n, err)
	}
}
