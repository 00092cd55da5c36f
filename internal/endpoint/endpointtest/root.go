//go:build unix

package endpointtest

import (
	"errors"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
)

// rootCases are about methods that only a Root has.
var rootCases = map[string]func(s *scene, r endpoint.Root){
	"mkdir": func(s *scene, r endpoint.Root) {
		s.put()
		made, err := r.Mkdir("new", 0o750)
		s.ok(err)
		s.is("new", "dir")
		if mode, _ := s.Disk.Attrs("new"); !made || mode != 0o750 {
			s.Errorf("made %v, with %v", made, mode)
		}
		for name, is := range map[string]error{"dir": nil, "new": nil, ".": nil,
			"file": endpoint.ErrNotDirectory, "pipe": endpoint.ErrNotDirectory,
			"link": endpoint.ErrLinkInWay, "dirlink": endpoint.ErrLinkInWay,
			"dangling": endpoint.ErrLinkInWay, "missing/x": fs.ErrNotExist,
			"file/x": endpoint.ErrNotDirectory} {
			made, err := r.Mkdir(name, 0o755)
			if made {
				s.Errorf("%s is made", name)
			}
			if is == nil {
				s.ok(err)
			} else {
				s.refused(name, err, is)
			}
		}
		s.unchanged()
		for _, name := range odd {
			made, err := r.Mkdir("new/"+name, 0o755)
			if s.is("new/"+name, "dir"); !made || err != nil {
				s.Errorf("%q: %v, %v", name, made, err)
			}
		}
	},

	"mkdir by many": func(s *scene, r endpoint.Root) {
		var all sync.WaitGroup
		var count atomic.Int64
		for range 8 {
			all.Go(func() {
				made, err := r.Mkdir("new", 0o755)
				if err != nil {
					s.Error(err)
				}
				if made {
					count.Add(1)
				}
			})
		}
		all.Wait()
		if s.is("new", "dir"); count.Load() != 1 {
			s.Errorf("%d have made it", count.Load())
		}
	},

	"symlink": func(s *scene, r endpoint.Root) {
		s.put()
		for i, text := range []string{"file", "../x", "/nowhere/at all", "new\nline", "."} {
			name := numbered(i + 1)[i]
			s.ok(r.Symlink(text, name))
			s.is(name, "-> "+text)
			have, err := r.ReadLink(name)
			s.ok(err)
			if !r.SameLink(name, have, text) || r.SameLink(name, have, "elsewhere") {
				s.Errorf("%q is not the same as %q", have, text)
			}
		}
		for name := range kinds {
			s.refused(name, r.Symlink("elsewhere", name), fs.ErrExist)
		}
		s.refused("missing", r.Symlink("x", "missing/x"), fs.ErrNotExist)
		s.unchanged()
	},

	"replace by a link": func(s *scene, r endpoint.Root) {
		s.put()
		s.refused("a directory", r.ReplaceByLink("to", "dir", "t", "a"))
		s.unchanged()
		for _, name := range []string{"file", "link", "dirlink", "dangling", "pipe", "missing"} {
			s.ok(r.ReplaceByLink("to", name, "t", "a"))
			s.is(name, "-> to")
		}
		s.is("dir/inside", "= inside", "t", "", "a", "", "to", "")
		s.refused("a missing directory", r.ReplaceByLink("to", "no/x", "no/t", "no/a"),
			fs.ErrNotExist)
	},

	"rename": func(s *scene, r endpoint.Root) {
		s.put()
		s.Disk.Mkdir("into")
		for from := range kinds {
			for to := range kinds {
				if from != to {
					s.refused(from+" to "+to, r.Rename(from, to), fs.ErrExist)
				}
			}
			s.refused(from+" into a missing directory", r.Rename(from, "missing/x"),
				fs.ErrNotExist)
		}
		s.refused("missing", r.Rename("missing", "new"), fs.ErrNotExist)
		s.is("new", "")
		s.unchanged()
		for from, state := range kinds {
			s.ok(r.Rename(from, "into/"+from))
			if s.is(from, ""); from != "link" && from != "dirlink" && from != "dangling" || s.Raw {
				s.is("into/"+from, state) // elsewhere a link may be made to say it otherwise
			}
		}
		s.is("into/dir/inside", "= inside")
	},

	"link": func(s *scene, r endpoint.Root) {
		if s.NoHard {
			s.Disk.Write("file", "data")
			s.refused("no hard links", r.Link("file", "second"))
			s.is("second", "")
			return
		}
		s.put()
		s.ok(r.Link("file", "dir/second"))
		s.is("file", "= data", "dir/second", "= data")
		for to := range kinds {
			if to != "file" {
				s.refused(to, r.Link("file", to), fs.ErrExist)
			}
		}
		s.refused("missing", r.Link("missing", "new"), fs.ErrNotExist)
		s.refused("a directory", r.Link("dir", "new"))
		s.is("new", "")
		s.unchanged()
	},

	"attributes": func(s *scene, r endpoint.Root) {
		s.put()
		set := usftp.NewAttrs{SetTimes: true, Atime: long, Mtime: long, SetMode: true, Mode: 0o750}
		for name, kind := range map[string]fs.FileMode{"file": 0, "dir": fs.ModeDir,
			".": fs.ModeDir} {
			unset, err := r.SetAttrs(name, kind, true, set)
			s.ok(err)
			mode, mtime := s.Disk.Attrs(name)
			if set := mode == 0o750 && mtime.Equal(long); set == s.NoTimes {
				s.Errorf("%s has %v of %v", name, mode, mtime)
			}
			if unset.Times != unset.Modes || unset.Times && !s.NoTimes {
				s.Errorf("unset: %+v", unset)
			}
		}
		if !s.NoTimes {
			_, err := r.SetAttrs("missing", 0, false, set)
			s.refused("missing", err, fs.ErrNotExist)
		}
		if !s.NoLinkSet {
			_, err := r.SetAttrs("link", fs.ModeSymlink, false, usftp.NewAttrs{SetTimes: true,
				Atime: longer, Mtime: longer})
			s.ok(err)
			if i, err := r.Lstat("link"); err != nil || !i.Mtime.Equal(longer) {
				s.Errorf("the link has %+v, %v", i, err)
			}
		}
		if _, mtime := s.Disk.Attrs("file"); mtime.Equal(longer) {
			s.Error("what the link leads to has its time")
		}
	},

	"attributes of something else": func(s *scene, r endpoint.Root) {
		s.put()
		set := usftp.NewAttrs{SetTimes: true, Atime: long, Mtime: long, SetMode: true, Mode: 0o700}
		for _, c := range []struct {
			name string
			kind fs.FileMode
		}{{"link", 0}, {"dirlink", fs.ModeDir}, {"dirlink", 0}, {"link", fs.ModeDir},
			{"dangling", 0}} {
			for _, own := range []bool{false, true} {
				_, err := r.SetAttrs(c.name, c.kind, own, set)
				if !s.Host || s.NoLinkSet && !s.NoTimes && r.FollowsLinks() {
					s.refused(c.name, err, endpoint.ErrReplaced, endpoint.ErrLinkInWay)
				}
			}
		}
		for _, name := range []string{"link", "dirlink"} { // links have no permissions of their own
			r.SetAttrs(name, fs.ModeSymlink, false, usftp.NewAttrs{SetMode: true, Mode: 0o700})
		}
		for _, name := range []string{"file", "dir"} {
			if mode, mtime := s.Disk.Attrs(name); mode == 0o700 || mtime.Equal(long) {
				s.Errorf("%s, which a link leads to, has %v of %v", name, mode, mtime)
			}
		}
		if !s.Host {
			_, err := r.SetAttrs("dir", 0, false, set)
			s.refused("a directory for a file", err, endpoint.ErrReplaced)
			_, err = r.SetAttrs("file", fs.ModeSymlink, false, set)
			s.refused("a file for a link", err, endpoint.ErrReplaced)
			_, err = r.SetAttrs("file", fs.ModeDir, false, set)
			s.refused("a file for a directory", err, endpoint.ErrReplaced, endpoint.ErrLinkInWay)
			s.ok(r.Link("file", "second"))
			_, err = r.SetAttrs("file", 0, false, set)
			s.refused("a file with another name", err, endpoint.ErrOtherNames)
			if mode, _ := s.Disk.Attrs("file"); mode == 0o700 {
				s.Error("it is set under its other name")
			}
		}
		s.unchanged()
	},

	"its place": func(s *scene, r endpoint.Root) {
		s.put()
		s.Disk.Mkdir("dir/deep")
		for _, dir := range []string{".", "dir", "dir/deep"} {
			i, err := r.LookDir(dir)
			s.ok(err)
			if !i.Mode.IsDir() {
				s.Errorf("%s is %v", dir, i.Mode)
			}
			s.ok(r.Unmoved(dir))
			s.ok(r.InPlace(dir))
		}
		for _, name := range []string{"missing", "file", "pipe", "dirlink", "dangling"} {
			s.inTime(func() {
				_, err := r.LookDir(name)
				s.refused(name, err)
				if !s.Host || r.FollowsLinks() { // others follow no link when they delete
					s.refused(name, r.Unmoved(name))
				}
			})
		}
	},

	"many directories": func(s *scene, r endpoint.Root) {
		all := numbered(80) // more than may be open at once
		for _, name := range all {
			made, err := r.Mkdir(name, 0o755)
			s.ok(err)
			_, err = r.Mkdir(name+"/below", 0o755)
			if s.ok(err); !made {
				s.Errorf("%s is not made", name)
			}
		}
		var workers sync.WaitGroup
		for part := range slices.Chunk(all, 20) {
			workers.Go(func() {
				for _, name := range part {
					err := r.WriteSmall(name+"/below/file", []byte(name), endpoint.Create)
					if errors.Is(err, endpoint.ErrRepeated) { // then the file may be there, and empty
						err = r.WriteSmall(name+"/below/file", []byte(name), nil)
					}
					if err != nil {
						s.Error(err)
					}
					r.Leave(name + "/below")
					r.Leave(name)
				}
			})
		}
		workers.Wait()
		for _, name := range all {
			s.is(name+"/below/file", "= "+name)
		}
	},

	"write to something else": func(s *scene, r endpoint.Root) {
		s.put()
		if r.FollowsLinks() {
			return // writers look first
		}
		for _, name := range []string{"dir", "link", "dirlink", "dangling"} {
			s.refused(name, r.WriteSmall(name, []byte("x"), nil))
		}
		if !s.Host {
			s.inTime(func() { s.refused("pipe", r.WriteSmall("pipe", []byte("x"), nil)) })
		}
		s.unchanged()
	},

	"leave and close": func(s *scene, r endpoint.Root) {
		s.put()
		s.ok(r.WriteSmall("dir/a", nil, endpoint.Create))
		for range 2 {
			r.Leave("dir")
			r.Leave(".")
			r.Leave("missing")
		}
		s.ok(r.WriteSmall("dir/b", nil, endpoint.Create))
		s.is("dir/a", "= ", "dir/b", "= ")
		r.Close()
		r.Close()
		if err := r.WriteSmall("dir/c", nil, endpoint.Create); !s.Host {
			s.refused("after the end", err)
			s.is("dir/c", "")
		}
	},
}
