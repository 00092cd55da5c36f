//go:build unix

package endpointtest

import (
	"io/fs"
	"maps"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
)

// Times that no file gets by itself.
var (
	long   = time.Unix(1_000_000_000, 0)
	longer = time.Unix(900_000_000, 0)
)

func init() {
	maps.Copy(rootCases, movedCases)
}

// movedCases are about directories that another program moves, or replaces with a link.
var movedCases = map[string]func(s *scene, r endpoint.Root){
	"link in the way, of a sibling": func(s *scene, r endpoint.Root) {
		s.outside(r, "outside", func() { s.Disk.Symlink("outside", "way") })
	},
	"link in the way, absolute": func(s *scene, r endpoint.Root) {
		s.outside(r, "outside", func() { s.Disk.Symlink(s.at("outside"), "way") })
	},
	"link in the way, dangling": func(s *scene, r endpoint.Root) {
		s.Disk.Mkdir("outside")
		s.Disk.Symlink("nowhere", "way")
		for what, do := range s.verbs(r) {
			s.refused(what, do("way"))
		}
		s.is("way", "-> nowhere", "nowhere", "")
	},
	"link in the way, after use": func(s *scene, r endpoint.Root) {
		s.Disk.Mkdir("way")
		s.ok(r.WriteSmall("way/first", nil, endpoint.Create))
		s.Disk.Mkdir("outside")
		s.Disk.Rename("way", "outside/was")
		s.Disk.Symlink("outside/was", "way")
		s.noticed(r, "way")
		s.is("outside/was/first", "= ")
	},
	"link in the way, above": func(s *scene, r endpoint.Root) {
		s.Disk.Mkdir("way")
		s.Disk.Mkdir("way/dir")
		s.ok(r.Unmoved("."))
		s.ok(r.Unmoved("way/dir"))
		s.ok(r.WriteSmall("way/dir/first", nil, endpoint.Create))
		s.Disk.Rename("way", "was")
		s.Disk.Symlink("was", "way")
		s.noticed(r, "way")
		s.noticed(r, "way/dir")
	},
	"another directory": func(s *scene, r endpoint.Root) {
		s.Disk.Mkdir("dir")
		s.ok(r.WriteSmall("dir/first", nil, endpoint.Create))
		s.Disk.Rename("dir", "was")
		s.Disk.Mkdir("dir")
		if err := r.Unmoved("dir"); !s.Host { // SFTP has no inodes to tell them apart by
			s.refused("another directory", err, endpoint.ErrMoved)
		}
		if err := r.Leave("dir"); !s.Host {
			s.refused("another directory", err, endpoint.ErrWentAlong)
		}
		s.ok(r.Leave("dir"))
		s.ok(r.Unmoved("dir"))
		s.ok(r.WriteSmall("dir/second", nil, endpoint.Create))
		s.is("was/first", "= ", "dir/second", "= ", "dir/first", "", "was/second", "")
	},
	"its old name again": func(s *scene, r endpoint.Root) {
		for _, dir := range []string{"dir", "dir/deep"} {
			_, err := r.Mkdir(dir, 0o755)
			s.ok(err)
		}
		s.ok(r.WriteSmall("dir/deep/first", nil, endpoint.Create))
		s.ok(r.Rename("dir", "was"))
		for _, dir := range []string{"dir", "dir/deep"} {
			made, err := r.Mkdir(dir, 0o755)
			if s.ok(err); !made {
				s.Errorf("%s is not made", dir)
			}
		}
		s.ok(r.WriteSmall("dir/deep/second", nil, endpoint.Create))
		s.ok(r.WriteSmall("was/deep/third", nil, endpoint.Create))
		s.is("was/deep/first", "= ", "was/deep/third", "= ", "dir/deep/second", "= ",
			"was/deep/second", "", "dir/deep/third", "")
	},
	"link in place of its directory": func(s *scene, r endpoint.Root) {
		s.Disk.Mkdir("outside")
		for _, dir := range []string{"dir", "dir/deep"} {
			_, err := r.Mkdir(dir, 0o755)
			s.ok(err)
			s.Disk.Rename(dir, "was")
			s.Disk.Symlink(s.at("outside"), dir)
			_, err = r.SetAttrs(dir, fs.ModeDir, true, usftp.NewAttrs{SetTimes: true, Atime: long,
				Mtime: long, SetMode: true, Mode: 0o700})
			if !s.Host {
				s.refused(dir, err, endpoint.ErrReplaced, endpoint.ErrLinkInWay)
			}
			if mode, mtime := s.Disk.Attrs("outside"); mode == 0o700 || mtime.Equal(long) {
				s.Errorf("what the link leads to has %v of %v", mode, mtime)
			}
			s.ok(r.Remove(dir, false))
			s.ok(r.Rename("was", dir))
		}
	},
	"link that stands for a directory": func(s *scene, r endpoint.Root) {
		s.put()
		s.Disk.Mkdir("outside")
		s.Disk.Mkdir("outside/sub")
		s.Disk.Mkdir("other")
		s.Disk.Write("outside/old", "old")
		s.Disk.Symlink("../other", "outside/inner")
		s.Disk.Mkdir("above")
		s.Disk.Symlink("../outside", "above/way")
		for _, name := range []string{"link", "dangling"} {
			_, err := r.KeepDirLink(name)
			s.refused(name, err, endpoint.ErrLinkInWay)
		}
		i, err := r.KeepDirLink("above/way")
		if s.ok(err); !i.Mode.IsDir() {
			s.Errorf("it leads to %v", i.Mode)
		}
		s.ok(r.Unmoved("."))
		for _, dir := range []string{"above", "above/way", "above/way/sub"} {
			_, err := r.LookDir(dir)
			s.ok(err)
			s.ok(r.Unmoved(dir))
			s.ok(r.InPlace(dir))
			made, err := r.Mkdir(dir, 0o755)
			if s.ok(err); made {
				s.Errorf("%s is made", dir)
			}
		}
		if names := s.list(r, "above/way"); len(names) != 3 {
			s.Errorf("it lists %v", names)
		}
		s.ok(r.WriteSmall("above/way/new", []byte("new"), endpoint.Create))
		s.ok(r.Rename("above/way/new", "above/way/sub/new"))
		s.ok(r.Remove("above/way/old", false))
		_, err = r.SetAttrs("above/way", fs.ModeDir, true, usftp.NewAttrs{SetTimes: true,
			Atime: long, Mtime: long})
		s.ok(err)
		if _, mtime := s.Disk.Attrs("outside"); !s.NoTimes && !mtime.Equal(long) {
			s.Errorf("it is of %v", mtime)
		}
		s.is("outside/sub/new", "= new", "outside/old", "", "above/way", "-> ../outside")
		for _, name := range []string{"above/way/inner", "dirlink"} { // other links are in the way
			_, err := r.LookDir(name)
			s.refused(name, err, endpoint.ErrLinkInWay)
			_, err = r.Mkdir(name, 0o755)
			s.refused(name, err, endpoint.ErrLinkInWay)
			if err := r.WriteSmall(name+"/x", nil, endpoint.Create); !r.FollowsLinks() {
				s.refused(name, err, endpoint.ErrLinkInWay)
			}
		}
	},
	"removed and made again": func(s *scene, r endpoint.Root) {
		for _, remove := range []func(){
			func() { s.Disk.Remove("dir") }, // by another program
			func() { s.ok(r.Remove("dir/file", false)); s.ok(r.Remove("dir", true)) },
		} {
			made, err := r.Mkdir("dir", 0o755)
			if s.ok(err); !made {
				s.Error("it is not made")
			}
			s.ok(r.WriteSmall("dir/file", nil, endpoint.Create))
			remove()
			s.is("dir", "")
		}
		_, err := r.Mkdir("other", 0o755)
		s.ok(err)
		s.ok(r.WriteSmall("other/file", nil, endpoint.Create))
		s.Disk.Remove("other")
		made, err := r.Mkdir("dir", 0o755)
		s.ok(err)
		s.ok(r.Rename("dir", "other"))
		s.ok(r.WriteSmall("other/second", nil, endpoint.Create))
		if s.is("other/second", "= "); !made {
			s.Error("it is not made")
		}
	},
}

// verbs returns the calls that name an entry of a directory.
func (s *scene) verbs(r endpoint.Root) map[string]func(dir string) error {
	set := usftp.NewAttrs{SetTimes: true, Atime: long, Mtime: long, SetMode: true, Mode: 0o700}
	s.Disk.Write("mine", "mine")
	verbs := map[string]func(dir string) error{
		"Lstat":    func(dir string) error { _, err := r.Lstat(dir + "/file"); return err },
		"ReadLink": func(dir string) error { _, err := r.ReadLink(dir + "/link"); return err },
		"ReadSmall": func(dir string) error {
			_, _, err := r.ReadSmall(dir+"/file", 9)
			return err
		},
		"List": func(dir string) error {
			return r.List(dir+"/sub", nil, nil, func(string, endpoint.Info, error) bool { return true })
		},
		"create": func(dir string) error { return r.WriteSmall(dir+"/new", nil, endpoint.Create) },
		"write": func(dir string) error {
			return r.WriteSmall(dir+"/file", []byte("DATA"), nil)
		},
		"Remove":  func(dir string) error { return r.Remove(dir+"/file", false) },
		"Rmdir":   func(dir string) error { return r.Remove(dir+"/sub", true) },
		"Mkdir":   func(dir string) error { _, err := r.Mkdir(dir+"/new", 0o755); return err },
		"Symlink": func(dir string) error { return r.Symlink("x", dir+"/new") },
		"ReplaceByLink": func(dir string) error {
			return r.ReplaceByLink("x", dir+"/file", dir+"/t", dir+"/a")
		},
		"Rename from": func(dir string) error { return r.Rename(dir+"/file", "new") },
		"Rename to":   func(dir string) error { return r.Rename("mine", dir+"/new") },
		"Rename in":   func(dir string) error { return r.Rename(dir+"/file", dir+"/new") },
		"SetAttrs": func(dir string) error {
			_, err := r.SetAttrs(dir+"/file", 0, true, set)
			return err
		},
		"Setdir": func(dir string) error {
			_, err := r.SetAttrs(dir+"/sub", fs.ModeDir, true, set)
			return err
		},
	}
	if !s.NoHard {
		verbs["Link from"] = func(dir string) error { return r.Link(dir+"/file", "new") }
		verbs["Link to"] = func(dir string) error { return r.Link("mine", dir+"/new") }
	}
	if s.NoTimes {
		delete(verbs, "SetAttrs")
		delete(verbs, "Setdir")
	}
	return verbs
}

// outside plays a case with the link "way", which link makes, to the directory dir.
func (s *scene) outside(r endpoint.Root, dir string, link func()) {
	s.Disk.Mkdir(dir)
	s.Disk.Write(dir+"/file", "data")
	s.Disk.Mkdir(dir + "/sub")
	s.Disk.Symlink("file", dir+"/link")
	link()
	s.noticed(r, "way")
	s.noticed(r, "way/sub")
	if r.FollowsLinks() {
		return
	}
	for what, do := range s.verbs(r) {
		s.refused(what, do("way"), endpoint.ErrLinkInWay)
	}
	s.refused("List of the link", r.List("way", nil, nil, func(string, endpoint.Info, error) bool {
		return true
	}), endpoint.ErrLinkInWay)
	s.is(dir+"/file", "= data", dir+"/sub", "dir", dir+"/link", "-> file", dir+"/new", "", "new", "",
		"mine", "= mine")
	for _, name := range []string{"/file", "/sub"} {
		if mode, mtime := s.Disk.Attrs(dir + name); mode == 0o700 || mtime.Equal(long) {
			s.Errorf("%s outside has %v of %v", name, mode, mtime)
		}
	}
}

// noticed checks that the calls that look notice a link in the way to a directory.
func (s *scene) noticed(r endpoint.Root, dir string) {
	s.Helper()
	_, err := r.LookDir(dir)
	s.refused("LookDir", err, endpoint.ErrLinkInWay)
	if err := r.Unmoved(dir); r.FollowsLinks() || !s.Host {
		s.refused("Unmoved", err, endpoint.ErrLinkInWay)
	}
	if r.FollowsLinks() {
		s.refused("InPlace", r.InPlace(dir), endpoint.ErrLinkInWay)
	}
}
