package usftp_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// untyped are servers that do not tell the types of files, or only in the lines of listings.
func untyped() map[string]sftptest.Script {
	few := sftptest.OpenSSHLimits()
	few.MaxOpenHandles = 4
	unannounced := []wire.ExtensionPair{}
	scripts := map[string]sftptest.Script{
		"no modes":             {HideAttrs: wire.AttrPermissions},
		"sizes only":           {HideAttrs: ^uint32(wire.AttrSize)},
		"nothing":              {HideAttrs: ^uint32(0)},
		"permissions only":     {HideTypes: true},
		"bare listings":        {HideTypes: true, BareListings: true},
		"few handles":          {HideAttrs: wire.AttrPermissions, Limits: &few, Extensions: unannounced},
		"no links, few others": {HideTypes: true, Refuse: []wire.Type{wire.TypeReadlink}},
	}
	scripts["no links, which it does not say"] = sftptest.Script{HideTypes: true,
		Faults: []sftptest.Fault{{On: wire.TypeReadlink, Do: sftptest.Refuse(wire.Failure, "")}}}
	for _, name := range slices.Collect(maps.Keys(scripts)) {
		script := scripts[name]
		script.BareLines = true
		scripts[name+", bare lines"] = script
	}
	return scripts
}

// TestUntypedTree: a tree is walked and removed as a whole, and no link is followed, where the
// server does not tell the types of files. Whatever it answers if a file is opened as a directory.
func TestUntypedTree(t *testing.T) {
	for name, script := range untyped() {
		for _, code := range []wire.Code{0, wire.Failure, wire.PermissionDenied} {
			t.Run(fmt.Sprint(name, ", ", code), func(t *testing.T) {
				var r *rig
				if code != 0 {
					script.Intercept = func(q sftptest.Request) []sftptest.Action {
						if q.Type != wire.TypeOpendir {
							return nil
						}
						is, err := r.server.Files.Lstat(q.Path)
						if err == nil && is.Permissions&0o170000 == 0o040000 {
							return nil
						}
						return []sftptest.Action{sftptest.Refuse(code, "no")}
					}
				}
				r = newRig(t, script, 0)
				untypedTree(t, r, strings.HasPrefix(name, "few handles"))
			})
		}
	}
}

func untypedTree(t *testing.T, r *rig, crowded bool) {
	files := r.server.Files
	files.WriteFile("/other/file", nil)
	want := []string{"/t/"}
	for _, dir := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		files.WriteFile("/t/"+dir+"/file", []byte("data"))
		files.Mkdir("/t/" + dir + "/empty")
		want = append(want, "/t/"+dir+"/", "/t/"+dir+"/empty/", "/t/"+dir+"/file")
	}
	files.Symlink("/other", "/t/link")
	want = append(want, "/t/link@")
	var got []string
	said := false
	ok(t, r.WalkDir("/t", func(name string, d fs.DirEntry, err error) error {
		if err != nil && crowded {
			said = true
			return nil
		}
		ok(t, err)
		switch {
		case d.IsDir():
			name += "/"
		case d.Type() == fs.ModeSymlink:
			name += "@"
		}
		got = append(got, name)
		return nil
	}))
	if !slices.Equal(got, want) && !said {
		t.Errorf("walked %q, not %q", got, want)
	}
	if info, err := r.Stat("/t"); err != nil || !info.IsDir() {
		t.Errorf("Stat: %v, %v", info, err)
	}
	ok(t, r.RemoveAll("/t"))
	if _, err := files.Lstat("/t"); err == nil {
		t.Error("the tree is still there")
	}
	if _, err := files.Lstat("/other/file"); err != nil {
		t.Errorf("what is elsewhere: %v", err)
	}
}

// TestTypeOfLine: the lines of listings tell types, if they are what they look like.
func TestTypeOfLine(t *testing.T) {
	for line, want := range map[string]uint32{
		"drwxr-xr-x    2 u g 4096 Jan  1 2020 name":   0o040000,
		"-rw-r--r--+   1 u g 4096 Jan  1 2020 name":   0o100000,
		"lrwxrwxrwx 1 u g 4 Jan 1 2020 name -> other": 0o120000,
		"01-31-20  12:00PM       <DIR>          name": 0o040000,
		"01-31-2020  12:00             1,234 name":    0o100000,
		"name": 0, "drwxr-xr-x": 0, "drwxr-xr-x 2 u g 4096 Jan 1 2020 else": 0,
		"total 12 name": 0, "01-31-20  12:00PM <JUNCTION> name": 0, "": 0,
	} {
		if got := usftp.TypeOfLine([]byte(line), []byte("name")); got != want {
			t.Errorf("%q: %o, not %o", line, got, want)
		}
	}
	name := strings.Repeat("drwxr-xr-x ", 2)
	if got := usftp.TypeOfLine([]byte(name), []byte(name)); got != 0 {
		t.Errorf("a line of nothing but the name: %o", got)
	}
}

// TestListedWithASlash: some servers list a directory with a slash after its name.
func TestListedWithASlash(t *testing.T) {
	for _, hidden := range []uint32{0, wire.AttrPermissions} {
		r := newRig(t, sftptest.Script{HideAttrs: hidden, BareLines: true, SlashedDirs: true}, 0)
		r.server.Files.WriteFile("/t/dir/file", nil)
		var got []string
		ok(t, r.WalkDir("/t", func(name string, d fs.DirEntry, err error) error {
			got = append(got, fmt.Sprint(name, d.IsDir(), err))
			return nil
		}))
		want := []string{"/ttrue <nil>", "/t/dirtrue <nil>", "/t/dir/filefalse <nil>"}
		if !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
		ok(t, r.RemoveAll("/t"))
	}
}

// TestTypeFromAServerThatSaysOK: an answer that no request for a type can have is a refusal.
func TestTypeFromAServerThatSaysOK(t *testing.T) {
	for _, from := range []wire.Type{wire.TypeOpendir, wire.TypeRead, wire.TypeReadlink} {
		r := newRig(t, sftptest.Script{HideAttrs: wire.AttrPermissions,
			Intercept: func(q sftptest.Request) []sftptest.Action {
				if q.Type == from {
					return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
				}
				return nil
			}}, 0)
		r.server.Files.WriteFile("/f", []byte("data"))
		if info, err := r.Lstat("/f"); err != nil || !info.Mode().IsRegular() || info.Size() != 4 {
			t.Errorf("%v: %v, %v", from, info, err)
		}
	}
}

// TestTypeOfConvertedName: a path that comes back is the one that was asked about also where names
// are converted.
func TestTypeOfConvertedName(t *testing.T) {
	for how, script := range map[string]sftptest.Script{
		"no links": {HideTypes: true, Refuse: []wire.Type{wire.TypeReadlink}},
		"each leads to itself": {HideTypes: true, Intercept: func(q sftptest.Request) []sftptest.Action {
			if q.Type != wire.TypeReadlink {
				return nil
			}
			return []sftptest.Action{sftptest.ReplyBytes(string(
				wire.Names{Names: []wire.Name{{Filename: q.Path}}}.Append(nil, q.ID)))}
		}},
	} {
		r := newRig(t, script, 0, usftp.WithNameCoding(flipped{}))
		r.server.Files.WriteFile("/"+flip("f"), nil)
		if info, err := r.Lstat("/f"); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v, %v", how, info, err)
		}
	}
}
