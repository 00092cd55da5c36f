//go:build unix

package endpointtest

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"

	"github.com/usftp/usftp/internal/endpoint"
)

// fsCases are about the methods common to a Place and a Root. at returns a name as in takes it.
var fsCases = map[string]func(s *scene, in endpoint.FS, at func(string) string){
	"lstat": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		for name, kind := range map[string]fs.FileMode{"file": 0, "dir": fs.ModeDir,
			"pipe": fs.ModeNamedPipe, "link": fs.ModeSymlink, "dirlink": fs.ModeSymlink,
			"dangling": fs.ModeSymlink, "dir/inside": 0, ".": fs.ModeDir} {
			i, err := in.Lstat(at(name))
			s.ok(err)
			if i.Mode.Type() != kind || !i.HasMode {
				s.Errorf("%s is %v", name, i.Mode)
			}
			if _, mtime := s.Disk.Attrs("file"); name == "file" && (i.Size != 4 || !i.HasTimes ||
				i.Mtime.Unix() != mtime.Unix()) {
				s.Errorf("it has %d bytes of %v", i.Size, i.Mtime)
			}
		}
		for _, name := range []string{"missing", "missing/x"} {
			_, err := in.Lstat(at(name))
			s.refused(name, err, fs.ErrNotExist)
		}
		_, err := in.Lstat(at("file/x"))
		s.refused("below a file", err)
	},

	"read link": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		for _, name := range []string{"link", "dirlink", "dangling"} {
			text, err := in.ReadLink(at(name))
			s.ok(err)
			if text = strings.TrimPrefix(text, s.Dir+"/"); "-> "+text != kinds[name] {
				s.Errorf("%s says %q", name, text)
			}
		}
		for _, name := range []string{"file", "dir", "pipe"} {
			_, err := in.ReadLink(at(name))
			s.refused(name, err)
		}
		_, err := in.ReadLink(at("missing"))
		s.refused("missing", err, fs.ErrNotExist)
	},

	"list": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		s.Disk.Mkdir("empty")
		names := s.list(in, at("."))
		for name, state := range kinds {
			i, listed := names[name]
			if isLink := state[0] == '-'; !listed || (i.Mode.Type() == fs.ModeSymlink) != isLink ||
				i.Mode.IsDir() != (state == "dir") || i.Mode.IsRegular() != (state[0] == '=') {
				s.Errorf("%s is listed as %v", name, i.Mode)
			}
		}
		if len(names) != len(kinds)+1 || names["file"].Size != 4 {
			s.Errorf("it lists %v", names)
		}
		if names := s.list(in, at("empty")); len(names) != 0 {
			s.Errorf("nothing is listed as %v", names)
		}
	},

	"list something else": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		list := func(name string) (err error) {
			s.inTime(func() {
				err = in.List(at(name), nil, nil, func(name string, _ endpoint.Info, _ error) bool {
					s.Errorf("%q is listed", name)
					return true
				})
			})
			return err
		}
		s.refused("missing", list("missing"), fs.ErrNotExist)
		s.refused("dangling", list("dangling"))
		s.refused("a file", list("file"))
		s.refused("a pipe", list("pipe"))
	},

	"list many": func(s *scene, in endpoint.FS, at func(string) string) {
		all := numbered(300) // more than one piece, and many replies
		for _, name := range all {
			s.Disk.Write(name, "")
		}
		var got []string
		s.ok(in.List(at("."), nil, func() { s.Error("it starts over") },
			func(name string, _ endpoint.Info, err error) bool {
				s.ok(err)
				got = append(got, name)
				return true
			}))
		if slices.Sort(got); !slices.Equal(got, all) {
			s.Errorf("%d names are listed", len(got))
		}
		count := 0
		s.ok(in.List(at("."), nil, nil, func(string, endpoint.Info, error) bool {
			count++
			return count < 3
		}))
		if count != 3 {
			s.Errorf("it goes on after the end, to %d", count)
		}
	},

	"list while entries vanish": func(s *scene, in endpoint.FS, at func(string) string) {
		s.Disk.Mkdir("dir")
		all := numbered(300)
		for _, name := range all {
			s.Disk.Write("dir/"+name, "")
		}
		count := 0
		s.ok(in.List(at("dir"), nil, nil, func(name string, i endpoint.Info, err error) bool {
			if count++; count == 1 {
				for _, other := range all {
					if other != name {
						s.Disk.Remove("dir/" + other)
					}
				}
			}
			if err != nil {
				s.refused(name, err, fs.ErrNotExist)
			} else if !i.Mode.IsRegular() || !i.HasMode {
				s.Errorf("%s is %v", name, i.Mode)
			}
			return true
		}))
		if count == 0 {
			s.Error("nothing is listed")
		}
	},

	"odd names": func(s *scene, in endpoint.FS, at func(string) string) {
		names := slices.Clone(odd)
		s.Disk.Mkdir("dir")
		// macOS takes only UTF-8
		if err := in.WriteSmall(at("dir/\xff\xfe"), nil, endpoint.Create); err == nil {
			names = append(names, "\xff\xfe")
			s.ok(in.Remove(at("dir/\xff\xfe"), false))
		}
		for _, name := range names {
			s.ok(in.WriteSmall(at("dir/"+name), []byte(name), endpoint.Create))
			s.is("dir/"+name, "= "+name)
			data, was, err := in.ReadSmall(at("dir/"+name), 1000)
			if string(data) != name || was.Size != int64(len(name)) {
				s.Errorf("%q holds %q, %+v, %v", name, data, was, err)
			}
		}
		listed := s.list(in, at("dir"))
		for _, name := range names {
			if _, ok := listed[name]; !ok {
				s.Errorf("%q is not listed", name)
			}
			s.ok(in.Remove(at("dir/"+name), false))
			s.is("dir/"+name, "")
		}
		if len(listed) != len(names) {
			s.Errorf("%d names are listed", len(listed))
		}
	},

	"read small": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		s.Disk.Write("empty", "")
		for name, want := range map[string]string{"file": "dat", "dir/inside": "ins", "empty": ""} {
			data, was, err := in.ReadSmall(at(name), 3)
			s.ok(err)
			size := len(strings.TrimPrefix(s.Disk.State(name), "= "))
			if string(data) != want || !was.Mode.IsRegular() || was.Size != int64(size) {
				s.Errorf("%s holds %q, and was %+v", name, data, was)
			}
		}
		for _, name := range []string{"dir", "pipe", "link", "dirlink", "dangling"} {
			s.inTime(func() {
				data, _, err := in.ReadSmall(at(name), 3)
				s.refused(name, err, endpoint.ErrNotRegular)
				if len(data) > 0 {
					s.Errorf("%s holds %q", name, data)
				}
			})
		}
		_, _, err := in.ReadSmall(at("missing"), 3)
		s.refused("missing", err, fs.ErrNotExist)
		s.unchanged()
	},

	"create": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		s.ok(in.WriteSmall(at("new"), []byte("new"), endpoint.Create))
		s.ok(in.WriteSmall(at("none"), nil, endpoint.Create))
		s.is("new", "= new", "none", "= ")
		for name := range kinds {
			s.inTime(func() { s.refused(name, in.WriteSmall(at(name), []byte("x"), endpoint.Create)) })
		}
		s.refused("missing", in.WriteSmall(at("missing/x"), nil, endpoint.Create), fs.ErrNotExist)
		s.refused("below a file", in.WriteSmall(at("file/x"), nil, endpoint.Create))
		name := strings.Repeat("n", 300) // more than most systems take
		if err := in.WriteSmall(at(name), nil, endpoint.Create); (err == nil) != (s.Disk.State(name) == "= ") {
			s.Errorf("a long name: %v, and there is %q", err, s.Disk.State(name))
		}
		s.unchanged()
	},

	"write": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		s.ok(in.WriteSmall(at("file"), []byte("DATA"), nil))
		s.is("file", "= DATA")
		big := bytes.Repeat([]byte("0123456789abcdef"), 40_000) // more than a request holds
		s.ok(in.WriteSmall(at("file"), big, nil))
		if got := s.Disk.State("file"); got != "= "+string(big) {
			s.Errorf("of %d bytes %d are there", len(big), len(got)-2)
		}
		s.Disk.Write("file", "data")
		s.refused("missing", in.WriteSmall(at("missing"), nil, nil), fs.ErrNotExist)
		s.refused("a directory", in.WriteSmall(at("dir"), []byte("x"), nil))
		s.is("missing", "")
		s.unchanged()
	},

	"remove": func(s *scene, in endpoint.FS, at func(string) string) {
		s.put()
		s.Disk.Mkdir("empty")
		s.refused("a directory that is not empty", in.Remove(at("dir"), true))
		s.refused("missing", in.Remove(at("missing"), false), fs.ErrNotExist)
		s.refused("missing", in.Remove(at("missing"), true), fs.ErrNotExist)
		// an entry that has replaced one of another kind stays
		s.refused("a file for a directory", in.Remove(at("file"), true))
		s.refused("a link for a directory", in.Remove(at("dirlink"), true))
		s.unchanged()
		s.ok(in.Remove(at("empty"), true))
		for _, name := range []string{"file", "pipe", "link", "dirlink", "dangling"} {
			s.ok(in.Remove(at(name), false))
			s.is(name, "")
		}
		s.is("empty", "", "dir/inside", "= inside")
	},
}
