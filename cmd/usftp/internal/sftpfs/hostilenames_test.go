//go:build linux || darwin

package sftpfs

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// listsNames is a script of a server whose directories hold names.
func listsNames(entries ...wire.Name) sftptest.Script {
	listed := make(map[string]bool) // handles
	return sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type != wire.TypeReaddir || listed[r.Handle] {
			return nil
		}
		listed[r.Handle] = true
		reply := wire.Names{Names: entries}
		return []sftptest.Action{sftptest.ReplyBytes(string(reply.Append(nil, r.ID)))}
	}}
}

// listedFile and listedDir are entries of a listing.
func listedFile(name string) wire.Name { return entry(name, syscall.S_IFREG|0o644) }
func listedDir(name string) wire.Name  { return entry(name, syscall.S_IFDIR|0o755) }

func entry(name string, mode uint32) wire.Name {
	return wire.Name{Filename: name, Attrs: wire.Attrs{
		Flags: wire.AttrSize | wire.AttrPermissions | wire.AttrACModTime, Permissions: mode}}
}

// readRoot reads the root as the kernel does, with plus or without, in pieces of a page.
func readRoot(t *testing.T, f *FS, plus bool) (names []string, nodes []uint64, status fuse.Status) {
	t.Helper()
	return readDir(t, f, fuse.FUSE_ROOT_ID, plus)
}

// readDir is readRoot for any directory.
func readDir(t *testing.T, f *FS, id uint64, plus bool) (names []string, nodes []uint64,
	status fuse.Status) {
	t.Helper()
	header := fuse.InHeader{NodeId: id}
	var opened fuse.OpenOut
	if status := f.OpenDir(nil, &fuse.OpenIn{InHeader: header}, &opened); status != fuse.OK {
		t.Fatal(status)
	}
	defer f.ReleaseDir(&fuse.ReleaseIn{InHeader: header, Fh: opened.Fh})
	in := fuse.ReadIn{InHeader: header, Fh: opened.Fh, Size: 4096}
	for {
		list := fuse.NewDirEntryList(make([]byte, in.Size), in.Offset)
		read := f.ReadDir
		if plus {
			read = f.ReadDirPlus
		}
		if status := read(nil, &in, list); status != fuse.OK {
			return names, nodes, status
		}
		if len(list.Bytes()) == 0 {
			return names, nodes, fuse.OK
		}
		entries, err := fuse.ParseDirEntries(list.Bytes())
		if plus {
			var outs []fuse.EntryOut
			entries, outs, err = fuse.ParseDirLookupEntries(list.Bytes())
			for _, out := range outs {
				nodes = append(nodes, out.NodeId)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name)
			in.Offset = e.Off
		}
	}
}

// Names that a hostile host lists never reach a program unless they can be names in that directory.
func TestHostileNames(t *testing.T) {
	long := strings.Repeat("n", 300)
	for what, test := range map[string]struct {
		listed []wire.Name
		want   []string // nil if the directory cannot be read
	}{
		"a path":           {[]wire.Name{listedFile("fine"), listedFile("a/b")}, nil},
		"a path upwards":   {[]wire.Name{listedFile("fine"), listedDir("../a")}, nil},
		"an absolute path": {[]wire.Name{listedFile("/etc/passwd")}, nil},
		"a slash":          {[]wire.Name{listedDir("/")}, nil},
		"nothing":          {[]wire.Name{listedFile("fine"), listedFile("")}, nil},
		"NUL":              {[]wire.Name{listedFile("a\x00b")}, nil},
		"dots": {[]wire.Name{listedDir("."), listedDir(".."), listedFile("..."),
			listedFile("fine")}, []string{"...", "fine"}},
		"dots as files": {[]wire.Name{listedFile("."), listedFile("..")}, []string{}},
		"300 bytes": {[]wire.Name{listedFile(long), listedFile("fine")},
			[]string{"fine", long}},
		"1,025 bytes": {[]wire.Name{listedFile("fine"),
			listedFile(strings.Repeat("n", maxName+1))}, nil},
		"32 KiB": {[]wire.Name{listedFile(strings.Repeat("n", 32<<10))}, nil},
		"control characters": {[]wire.Name{listedFile("\x1b[2J\n"), listedFile("\xff")},
			[]string{"\x1b[2J\n", "\xff"}},
		"twice": {[]wire.Name{listedFile("twice"), listedFile("twice")},
			[]string{"twice", "twice"}},
		"a file and a directory": {[]wire.Name{listedFile("both"), listedDir("both"),
			listedFile("both")},
			[]string{"both", "both", "both"}},
	} {
		t.Run(what, func(t *testing.T) {
			for _, plus := range []bool{true, false} {
				f := mountScripted(t, time.Minute, listsNames(test.listed...)).FS
				names, _, status := readRoot(t, f, plus)
				if test.want == nil {
					if status != fuse.EIO || len(names) != 0 {
						t.Errorf("%v, %q", status, names)
					}
					continue
				}
				if status != fuse.OK || len(names) < 2 || names[0] != "." || names[1] != ".." {
					t.Fatalf("%v, %q", status, names)
				}
				names = names[2:]
				slices.Sort(names)
				if !slices.Equal(names, test.want) {
					t.Errorf("%q, want %q", names, test.want)
				}
			}
		})
	}
}

// A name that is listed twice is one file, and the kernel's references to it can all be dropped.
func TestNameListedTwice(t *testing.T) {
	for what, listed := range map[string][]wire.Name{
		"of one type":  {listedFile("twice"), listedFile("twice")},
		"of two types": {listedFile("twice"), listedDir("twice"), listedFile("twice")},
	} {
		t.Run(what, func(t *testing.T) {
			f := mountScripted(t, time.Minute, listsNames(listed...)).FS
			_, nodes, _ := readRoot(t, f, true)
			var out fuse.EntryOut
			if status := f.Lookup(nil, &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, "twice",
				&out); status != fuse.OK {
				t.Fatal(status)
			}
			if last := nodes[len(nodes)-1]; out.NodeId != last {
				t.Errorf("node %d, and %d was listed last", out.NodeId, last)
			}
			for _, id := range append(nodes, out.NodeId) {
				if id != 0 { // "." and ".."
					f.Forget(id, 1)
				}
			}
			f.tree.mu.Lock()
			defer f.tree.mu.Unlock()
			if len(f.tree.byID) != 1 || len(f.tree.root.children) != 0 || len(f.tree.inos) != 0 {
				t.Errorf("%d nodes, %d names and %d inode numbers are kept", len(f.tree.byID)-1,
					len(f.tree.root.children), len(f.tree.inos))
			}
		})
	}
}

// Names that are too long for most hosts can be used if the host has them, and not be made.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("n", 300)
	f := mountScripted(t, time.Minute, listsNames(listedFile(long))).FS
	root := fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
	readRoot(t, f, true)
	var out fuse.EntryOut
	if status := f.Lookup(nil, &root, long, &out); status != fuse.OK || out.NodeId == 0 {
		t.Errorf("a name that is listed: %v", status)
	}
	if status := f.Lookup(nil, &root, long+"x", &out); status != fuse.Status(syscall.ENAMETOOLONG) {
		t.Errorf("another name: %v", status)
	}
	if status := f.Mkdir(nil, &fuse.MkdirIn{InHeader: root}, long+"x", &out); status != fuse.Status(
		syscall.ENAMETOOLONG) {
		t.Errorf("a new directory: %v", status)
	}
	var created fuse.CreateOut
	if status := f.Create(nil, &fuse.CreateIn{InHeader: root}, long+"x",
		&created); status != fuse.Status(syscall.ENAMETOOLONG) {
		t.Errorf("a new file: %v", status)
	}
	if status := f.Unlink(nil, &root, long); status != fuse.ENOENT { // the listing was a lie
		t.Errorf("the one that is listed is removed: %v", status)
	}
}
