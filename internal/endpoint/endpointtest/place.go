//go:build unix

package endpointtest

import (
	"io/fs"
	"path"
	"strings"

	"github.com/usftp/usftp/internal/endpoint"
)

// placeCases are about methods that only a Place has.
var placeCases = map[string]func(s *scene){
	"names": func(s *scene) {
		p := s.Place
		for name, base := range map[string]string{"/a/b": "b", "a": "a", "a/b/": "b", "/": ".",
			".": ".", "": ".", "a/..": ".", "a/.": ".", "a b\n/\xff": "\xff"} {
			if got := p.Base(name); got != base {
				s.Errorf("the base of %q is %q, want %q", name, got, base)
			}
		}
		if got := p.Join("a/b", "c d"); got != "a/b/c d" {
			s.Errorf("joined to %q", got)
		}
		host, name, ok := p.Identity("/a/b")
		if name != "/a/b" || !ok || (host != "") != s.Host {
			s.Errorf("it is %q on %q, %v", name, host, ok)
		}
	},

	"stat": func(s *scene) {
		s.put()
		for name, kind := range map[string]fs.FileMode{"file": 0, "link": 0, "dir": fs.ModeDir,
			"dirlink": fs.ModeDir, "pipe": fs.ModeNamedPipe} {
			i, err := s.Place.Stat(s.at(name))
			s.ok(err)
			if i.Mode.Type() != kind || !i.HasMode {
				s.Errorf("%s is %v", name, i.Mode)
			}
		}
		for _, name := range []string{"missing", "dangling", "missing/x"} {
			_, err := s.Place.Stat(s.at(name))
			s.refused(name, err, fs.ErrNotExist)
		}
	},

	"real path": func(s *scene) {
		s.put()
		top, err := s.Place.RealPath(s.Dir)
		if s.NoReal {
			s.refused("a real path", err, fs.ErrPermission)
			return
		}
		s.ok(err)
		for name, want := range map[string]string{"dir": "dir", "dirlink": "dir",
			"dirlink/inside": "dir/inside", "file": "file", "dir/..": "", "dirlink/../file": "file"} {
			if s.Textual {
				want = path.Clean(name)
			}
			got, err := s.Place.RealPath(s.Dir + "/" + name)
			s.ok(err)
			if got != path.Join(top, want) {
				s.Errorf("%s is really %s, in %s", name, got, top)
			}
		}
		if !s.Textual {
			_, err = s.Place.RealPath(s.at("missing/x"))
			s.refused("a missing directory", err, fs.ErrNotExist)
		}
	},

	"mark": func(s *scene) {
		s.put()
		s.Disk.Mkdir("other")
		mark := func(name string) string {
			m, err := s.Place.Mark(s.at(name))
			s.ok(err)
			return m
		}
		if once, again := mark("dir"), mark("dir"); once != again || !s.Textual && once != mark("dirlink") {
			s.Error("a directory is told from itself")
		}
		if mark("dir") == mark("other") {
			s.Error("two directories are not told apart")
		}
		_, err := s.Place.Mark(s.at("missing"))
		s.refused("a missing directory", err, fs.ErrNotExist)
	},

	"volume": func(s *scene) {
		s.put()
		if s.Place.Volume(s.at("dir")) != s.Place.Volume(s.at("file")) {
			s.Error("a directory holds two file systems")
		}
		s.Place.Volume(s.at("missing"))
	},

	"list another directory": func(s *scene) {
		s.put()
		was, err := s.Place.Lstat(s.at("dir"))
		s.ok(err)
		list := func() error {
			return s.Place.List(s.at("dir"), &was, nil, func(string, endpoint.Info, error) bool {
				return true
			})
		}
		s.ok(list())
		s.Disk.Rename("dir", "away")
		s.Disk.Mkdir("dir")
		if err := list(); err != nil || !s.Host { // SFTP has no inodes to tell them apart by
			s.refused("another directory", err, endpoint.ErrMoved)
		}
		s.Disk.Rename("dir", "away2")
		s.Disk.Symlink("away2", "dir")
		if err := list(); err != nil || !s.Host {
			s.refused("a link", err, endpoint.ErrMoved)
		}
	},

	"list a linked directory": func(s *scene) {
		s.put()
		names := s.list(s.Place, s.at("dirlink"))
		if len(names) != 1 || !names["inside"].Mode.IsRegular() {
			s.Errorf("it holds %v", names)
		}
	},

	"remove after the end": func(s *scene) {
		s.put()
		s.Disk.Mkdir("empty")
		root := s.below()
		if s.End != nil {
			s.End()
		}
		s.ok(s.Place.Remove(s.at("file"), false))
		s.ok(root.Remove("empty", true))
		s.ok(root.Remove("link", false))
		s.is("file", "", "empty", "", "link", "")
	},

	"below": func(s *scene) {
		s.put()
		for _, name := range []string{"missing", "file", "pipe", "dangling"} {
			s.inTime(func() {
				root, err := s.Place.Below(s.at(name))
				if err == nil {
					defer root.Close()
					_, err = root.Mkdir("made", 0o755)
				}
				s.refused(name, err)
			})
		}
		root, err := s.Place.Below(s.at("dirlink"))
		if err != nil {
			s.Fatal(err)
		}
		defer root.Close()
		for _, look := range []func(string) (endpoint.Info, error){root.Lstat, root.LookDir} {
			i, err := look(".")
			s.ok(err)
			if !i.Mode.IsDir() {
				s.Errorf("the root is %v", i.Mode)
			}
		}
		s.ok(root.Unmoved("."))
		s.ok(root.InPlace("."))
		s.ok(root.WriteSmall("new", []byte("new"), endpoint.Create))
		made, err := root.Mkdir(".", 0o755)
		s.ok(err)
		names := s.list(root, ".")
		if made || len(names) != 2 {
			s.Errorf("made %v, and it holds %v", made, names)
		}
		s.is("dir/new", "= new", "dirlink", "-> dir")
		s.Disk.Remove("dirlink")
		s.Disk.Write("dirlink", "")
		if s.Host {
			_, err = root.LookDir(".")
			s.refused("a file that is the root now", err)
		}
	},
}

// at returns the path of a name.
func (s *scene) at(name string) string { return s.Place.Join(s.Dir, name) }

// list returns the entries of a directory, and checks that each name comes once.
func (s *scene) list(in endpoint.FS, dir string) map[string]endpoint.Info {
	s.Helper()
	names := make(map[string]endpoint.Info)
	err := in.List(dir, nil, nil, func(name string, i endpoint.Info, err error) bool {
		s.ok(err)
		if _, twice := names[name]; twice || name == "." || name == ".." {
			s.Errorf("%q is listed", name)
		}
		names[name] = i
		return true
	})
	s.ok(err)
	return names
}

// odd are names that a program may trip over.
var odd = []string{" ", "a b", "-rf", "new\nline", "*?[", "\\", "...", "\x7f", "ü",
	strings.Repeat("n", 255)}
