//go:build unix

package endpointtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// contents are more bytes than one request carries.
var contents = strings.Repeat("0123456789abcdef", 50_000)

// readCases are about files that are read.
var readCases = map[string]func(s *scene, o endpoint.Opener){
	"read": func(s *scene, o endpoint.Opener) {
		s.Disk.Write("file", contents)
		f := s.open(o, "file", endpoint.Regular|endpoint.NoFollow)
		i := f.Info()
		if !i.IsRegular() || i.Size != int64(len(contents)) || !i.HasTimes {
			s.Errorf("it is %+v", i)
		}
		s.reads(f, contents)
		now, err := f.Stat()
		s.ok(err)
		if now.Size != i.Size || !now.Mtime.Equal(i.Mtime) {
			s.Errorf("it was %+v and is %+v", i, now)
		}
		s.Disk.Append("file", "more")
		if now, err = f.Stat(); err != nil || now.Size != int64(len(contents))+4 {
			s.Errorf("it is %+v now: %v", now, err)
		}
	},

	"read from the middle": func(s *scene, o endpoint.Opener) {
		s.Disk.Write("file", contents)
		f := s.open(o, "file", endpoint.Regular)
		_, err := f.Seek(1000, io.SeekStart)
		s.ok(err)
		_, err = io.CopyN(io.Discard, f, 500)
		s.ok(err)
		at, err := f.Seek(-100, io.SeekCurrent)
		if at != 1400 || err != nil {
			s.Errorf("it is at %d: %v", at, err)
		}
		s.reads(f, contents[1400:])
	},

	"read in order and again": func(s *scene, o endpoint.Opener) {
		s.Disk.Write("file", contents)
		f := s.open(o, "file", endpoint.Regular)
		const piece = 70_000
		data := make([]byte, piece)
		for off := 0; off < len(contents); off += piece {
			end := min(off+piece, len(contents))
			n, err := f.ReadAt(data, int64(off))
			if string(data[:n]) != contents[off:end] || (err != nil) != (n < piece) ||
				err != nil && err != io.EOF {
				s.Fatalf("at %d: %d bytes, %v", off, n, err)
			}
			if n, err = f.ReadAt(data[:10], int64(off/2)); string(data[:n]) != contents[off/2:off/2+10] {
				s.Fatalf("again at %d: %q, %v", off/2, data[:n], err)
			}
		}
		if n, err := f.ReadAt(data, int64(len(contents))); n != 0 || err != io.EOF {
			s.Errorf("after the end: %d bytes, %v", n, err)
		}
	},

	"another reader": func(s *scene, o endpoint.Opener) {
		s.Disk.Write("file", contents)
		open := func() (f endpoint.Reader, again endpoint.ReadAtCloser, err error) {
			f = s.open(o, "file", endpoint.Regular)
			_, err = io.CopyN(io.Discard, f, 100)
			s.ok(err)
			again, err = f.Again(s.Context())
			return f, again, err
		}
		f, again, err := open()
		if errors.Is(err, usftp.ErrSharedHandle) { // it is known from now on
			f.Close()
			f, again, err = open()
		}
		if err != nil {
			s.Fatal(err)
		}
		s.reads(io.NewSectionReader(again, 0, int64(len(contents))), contents)
		s.ok(again.Close())
		s.reads(f, contents[100:])
	},

	"written by the reader": func(s *scene, o endpoint.Opener) {
		s.Disk.Write("file", contents)
		from, ok := s.open(o, "file", endpoint.Regular).(interface {
			io.WriterTo
			io.ReadSeeker
		})
		if !ok {
			s.Fatal("it cannot")
		}
		_, err := from.Seek(10, io.SeekStart)
		s.ok(err)
		_, err = io.ReadFull(from, make([]byte, 5))
		s.ok(err)
		var got bytes.Buffer
		n, err := from.WriteTo(&got)
		if got.String() != contents[15:] || n != int64(got.Len()) || err != nil {
			s.Errorf("%d bytes, %v", n, err)
		}
	},

	// A host could fill the disk otherwise.
	"grown while it was read": func(s *scene, o endpoint.Opener) {
		grown := func(how endpoint.Opening) endpoint.Reader {
			s.Disk.Write("file", "short")
			f := s.open(o, "file", how)
			s.Disk.Append("file", strings.Repeat(contents, 3))
			return f
		}
		f := grown(endpoint.Growing)
		s.reads(f, "short"+strings.Repeat(contents, 3))
		s.ok(f.Close())
		f = grown(endpoint.Regular)
		_, err := f.ReadAt(make([]byte, len(contents)), int64(2*len(contents)))
		if _, all := io.Copy(io.Discard, struct{ io.Reader }{f}); s.Host {
			s.refused("a piece far beyond its size", err, endpoint.ErrGrown)
			s.refused("what is there now", all, endpoint.ErrGrown)
		} else {
			s.ok(errors.Join(err, all))
		}
	},

	"not there": func(s *scene, o endpoint.Opener) {
		s.put()
		for _, how := range []endpoint.Opening{0, endpoint.Regular,
			endpoint.Regular | endpoint.NoFollow} {
			_, err := o.Open(s.Context(), s.at("missing"), how)
			s.refused("missing", err, fs.ErrNotExist)
			s.refused("missing, whole", o.ReadWhole(s.Context(), s.at("missing"), how,
				&endpoint.Info{}, &block{}), fs.ErrNotExist)
		}
	},

	// SFTP has no such flag: a host's server follows links.
	"a link in its place": func(s *scene, o endpoint.Opener) {
		s.put()
		const how = endpoint.Regular | endpoint.NoFollow
		_, err := o.Open(s.Context(), s.at("link"), how)
		whole := o.ReadWhole(s.Context(), s.at("link"), how, &endpoint.Info{Size: 4}, &block{})
		if !s.Host {
			s.refused("a link", err, localfs.ErrLink)
			s.refused("a link, whole", whole, localfs.ErrLink)
		}
		s.reads(s.open(o, "link", 0), "data")
	},

	"a pipe in its place": func(s *scene, o endpoint.Opener) {
		s.put()
		const how = endpoint.Regular | endpoint.NoFollow
		if s.Host { // its server would wait
			return
		}
		s.inTime(func() {
			if f := s.open(o, "pipe", how); f.Info().Mode.Type() != fs.ModeNamedPipe {
				s.Errorf("it is %v", f.Info().Mode)
			}
			s.refused("a pipe", o.ReadWhole(s.Context(), s.at("pipe"), how, &endpoint.Info{},
				&block{}), endpoint.ErrNotListed)
			ctx, cancel := context.WithCancelCause(s.Context())
			cause := errors.New("enough")
			cancel(cause)
			_, err := o.Open(ctx, s.at("pipe"), 0)
			s.refused("a pipe without a writer", err, cause)
		})
	},

	"whole": func(s *scene, o endpoint.Opener) {
		s.put()
		s.Disk.Write("empty", "")
		for name, want := range map[string]string{"file": "data", "empty": "", "dir/inside": "inside"} {
			m := &block{}
			i := endpoint.Info{Size: int64(len(want))}
			s.ok(o.ReadWhole(s.Context(), s.at(name), endpoint.Regular, &i, m))
			if got := string(m.data[:len(want)]); got != want || m.opened != 1 || !i.IsRegular() ||
				i.Size != int64(len(want)) {
				s.Errorf("%s: %q, opened %d times, %+v", name, got, m.opened, i)
			}
		}
	},

	"whole, and written to meanwhile": func(s *scene, o endpoint.Opener) {
		s.put()
		m := &block{lending: func() { s.Disk.Append("file", "more") }}
		i := endpoint.Info{Size: 4}
		err := o.ReadWhole(s.Context(), s.at("file"), endpoint.Regular, &i, m)
		if !s.Host {
			s.refused("it", err, endpoint.ErrNotListed)
		} else if string(m.data) != "data" || err != nil && !errors.Is(err, endpoint.ErrNotListed) {
			s.Errorf("%q: %v", m.data, err) // a host may have reported before the change
		}
		s.is("file", "= datamore")
	},

	"whole, but not as listed": func(s *scene, o endpoint.Opener) {
		s.put()
		for name, size := range map[string]int64{"file": 3, "link": 5, "dir/inside": 0} {
			i := endpoint.Info{Size: size}
			s.refused(name, o.ReadWhole(s.Context(), s.at(name), endpoint.Regular, &i, &block{}),
				endpoint.ErrNotListed)
			if i != (endpoint.Info{Size: size}) {
				s.Errorf("%s is listed as %+v", name, i)
			}
		}
		s.refused("a directory", o.ReadWhole(s.Context(), s.at("dir"), endpoint.Regular,
			&endpoint.Info{}, &block{}))
	},
}

// open opens a file until the case ends.
func (s *scene) open(o endpoint.Opener, name string, how endpoint.Opening) endpoint.Reader {
	s.Helper()
	f, err := o.Open(s.Context(), s.at(name), how)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { f.Close() })
	return f
}

// reads checks the bytes read up to the end.
func (s *scene) reads(from io.Reader, want string) {
	s.Helper()
	got, err := io.ReadAll(struct{ io.Reader }{from})
	s.ok(err)
	if string(got) != want {
		s.Errorf("%d bytes are read that are not the %d there", len(got), len(want))
	}
}

// block is the buffer for ReadWhole.
type block struct {
	data    []byte
	opened  int
	lending func() // nil if nothing happens then
}

func (m *block) Opening() {}
func (m *block) Opened()  { m.opened++ }
func (m *block) Closing() {}

func (m *block) Lend(n int) []byte {
	if m.lending != nil {
		m.lending()
	}
	m.data = make([]byte, n)
	return m.data
}
