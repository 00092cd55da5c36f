package transfer_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A host that can have few files open, and does not say how many, shows it by what it refuses: all
// files arrive. What it refuses for another reason fails as ever, and leaves the others their
// handles.
func TestFewHandlesThatNobodyAnnounced(t *testing.T) {
	const files = 200
	limits := sftptest.OpenSSHLimits()
	limits.MaxOpenHandles = 20
	for _, direction := range []way{upload, download} {
		for _, code := range []wire.Code{wire.Failure, wire.PermissionDenied} {
			for _, bad := range []bool{false, true} {
				for name, known := range map[string]usftp.ClientOption{"in order": inOrder,
					"step by step": usftp.WithServerVersion("")} {
					t.Run(fmt.Sprint(direction, " ", name, ", ", code, ", one is bad: ", bad), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							script := sftptest.Script{Limits: &limits, Crowded: code, Extensions: []wire.ExtensionPair{
								{Name: wire.ExtPosixRename, Data: "1"}}}
							if bad {
								script.Intercept = func(r sftptest.Request) []sftptest.Action {
									name := strings.TrimPrefix(filepath.Base(r.Path), ".")
									if r.Type == wire.TypeOpen && (name == "f7" || strings.HasPrefix(name, "f7.")) {
										return []sftptest.Action{sftptest.Refuse(code, "")}
									}
									return nil
								}
							}
							b := newBench(t, script, sftptest.LinkConfig{}, known)
							source, target := filepath.Join(b.dir, "source"), "/copy"
							names := numbered("f", files)
							if direction == upload {
								fill(t, source, names...)
							} else {
								for _, name := range names {
									b.server.Files.WriteFile("/source/"+name, []byte(name))
								}
								source, target = "/source", filepath.Join(b.dir, "copy")
							}
							s, err := b.tree(direction, source, target)
							want := int64(files)
							if bad {
								want--
							}
							if s.Files != want || s.Failed != files-want || (err != nil) != bad {
								t.Errorf("%+v, %v", s.Totals, err)
							}
						})
					})
				}
			}
		}
	}
}

// The same holds for directories, of a source and of a sync's target. A file may be refused while
// nothing but directories is open.
func TestFewHandlesForDirectories(t *testing.T) {
	for _, most := range []uint64{5, 8} {
		for name, known := range map[string]usftp.ClientOption{"in order": inOrder,
			"step by step": usftp.WithServerVersion("")} {
			t.Run(fmt.Sprint(most, " ", name), func(t *testing.T) {
				limits := sftptest.OpenSSHLimits()
				limits.MaxOpenHandles = most
				b := newBench(t, sftptest.Script{Limits: &limits, Extensions: []wire.ExtensionPair{
					{Name: wire.ExtPosixRename, Data: "1"}}}, sftptest.LinkConfig{}, known)
				const files = 150
				for i := range files {
					b.server.Files.WriteFile(fmt.Sprintf("/source/%d/%d/f", i%60, i), []byte("x"))
				}
				copied := filepath.Join(b.dir, "copy")
				if s, err := b.tree(download, "/source", copied); err != nil || s.Files != files {
					t.Errorf("%+v, %v", s.Totals, err)
				}
				j := syncJob{direction: upload, far: b.host, src: copied, dst: "/source"}
				j.options.NoLock = true // which would be one handle more
				if s := j.must(t); s.Kept != files {
					t.Errorf("%+v", s.Totals)
				}
			})
		}
	}
}

// TestRelayFromFewHandles: small files that one host takes in one request each are opened on the
// other, which allows few at once.
func TestRelayFromFewHandles(t *testing.T) {
	const files = 200
	limits := sftptest.OpenSSHLimits()
	limits.MaxOpenHandles = 20
	for _, announced := range []bool{false, true} {
		t.Run(fmt.Sprintf("announced %v", announced), func(t *testing.T) {
			script := sftptest.Script{Limits: &limits, Crowded: wire.Failure}
			if announced {
				script.Extensions = []wire.ExtensionPair{{Name: wire.ExtLimits, Data: "1"}}
			}
			b := newTreeBench(t, script, sftptest.LinkConfig{ToClient: 5 * time.Millisecond})
			for _, name := range numbered("f", files) {
				b.server.Files.WriteFile("/source/"+name, []byte(name))
			}
			to, _ := deltaHostOf(t, memfs.New(0), nil)
			s, err := b.tree(relay, "/source", "/copy", func(j *treeJob) {
				j.Host, j.From = to, b.host
			})
			if err != nil || s.Files != files {
				t.Errorf("%+v, %v", s.Totals, err)
			}
		})
	}
}

// TestFewHandlesForNamesThatDifferInCase: whether the target takes two names for one is found out
// with a file, which waits until there is a handle for it.
func TestFewHandlesForNamesThatDifferInCase(t *testing.T) {
	limits := sftptest.OpenSSHLimits()
	limits.MaxOpenHandles = 10
	for _, code := range []wire.Code{wire.Failure, wire.PermissionDenied} {
		b := newBench(t, sftptest.Script{Limits: &limits, Crowded: code,
			Extensions: []wire.ExtensionPair{{Name: wire.ExtPosixRename, Data: "1"}}},
			sftptest.LinkConfig{ToServer: 5 * time.Millisecond})
		const dirs = 20
		from := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		for i := range dirs {
			for _, name := range append(numbered("f", 10), "x", "X") {
				from.server.Files.WriteFile(fmt.Sprintf("/source/%d/%s", i, name), []byte(name))
			}
		}
		s, err := b.tree(relay, "/source", "/copy", func(j *treeJob) { j.From = from.host })
		if err != nil || s.Files != 12*dirs {
			t.Errorf("%v: %+v, %v", code, s.Totals, err)
		}
	}
}

// Before a source is removed whose copy replaced a file, one more is made beside that.
func TestFewHandlesForRemovedSources(t *testing.T) {
	const files = 100
	limits := sftptest.OpenSSHLimits()
	limits.MaxOpenHandles = 20
	rename := wire.ExtensionPair{Name: wire.ExtPosixRename, Data: "1"}
	for name, extensions := range map[string][]wire.ExtensionPair{"known": {rename,
		{Name: wire.ExtLimits, Data: "1"}}, "unknown": {rename}} {
		for _, code := range []wire.Code{wire.Failure, wire.PermissionDenied} {
			t.Run(fmt.Sprint(name, ", ", code), func(t *testing.T) {
				b := newBench(t, sftptest.Script{Limits: &limits, Crowded: code,
					Extensions: extensions}, sftptest.LinkConfig{ToServer: 5 * time.Millisecond})
				source := filepath.Join(b.dir, "source")
				names := numbered("f", files)
				fill(t, source, names...)
				age(t, source)
				for _, name := range names {
					b.server.Files.WriteFile("/copy/source/"+name, []byte("old"))
				}
				s, err := b.tree(upload, source, "/copy",
					func(j *treeJob) { j.Options.RemoveSource = true })
				if err != nil || s.Removed != files {
					t.Errorf("%+v, %v", s.Totals, err)
				}
			})
		}
	}
}

// Files that are denied are not taken for a limit: they fail at once, and the others need not wait.
func TestDeniedFilesAreNotPutDownToALimit(t *testing.T) {
	for _, test := range []struct {
		direction way
		code      wire.Code
		files     int64
	}{
		{upload, wire.PermissionDenied, 150}, {download, wire.PermissionDenied, 150},
		{download, wire.Failure, 600},
	} {
		direction, files := test.direction, test.files
		t.Run(fmt.Sprint(direction, " ", test.code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var opened atomic.Int64
				b := newBench(t, sftptest.Script{
					Extensions: []wire.ExtensionPair{{Name: wire.ExtPosixRename, Data: "1"}},
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Type != wire.TypeOpen {
							return nil
						}
						opened.Add(1)
						name := strings.TrimPrefix(filepath.Base(r.Path), ".")
						name, _, _ = strings.Cut(name, ".")
						if strings.HasSuffix(name, "7") || strings.HasSuffix(name, "3") {
							return []sftptest.Action{sftptest.Refuse(test.code, "")}
						}
						return nil
					}}, sftptest.LinkConfig{})
				source, target := filepath.Join(b.dir, "source"), "/copy"
				names := numbered("f", int(files))
				if direction == upload {
					fill(t, source, names...)
				} else {
					for _, name := range names {
						b.server.Files.WriteFile("/source/"+name, []byte(name))
					}
					source, target = "/source", filepath.Join(b.dir, "copy")
				}
				s, err := b.tree(direction, source, target)
				if s.Files != files*4/5 || s.Failed != files/5 || err == nil {
					t.Errorf("%+v, %v", s.Totals, err)
				}
				// the first that are denied wait for others, and uploads are tried in place, too
				if n := opened.Load(); n > files*2 {
					t.Errorf("%d requests to open %d files", n, files)
				}
			})
		})
	}
}

// Nor is it put down to a limit that a file is written in place once its temporary name was denied.
func TestDeniedNamesAreNotPutDownToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, sftptest.Script{
			Extensions: []wire.ExtensionPair{{Name: wire.ExtPosixRename, Data: "1"}},
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeOpen && strings.Contains(r.Path, ".usftp-") {
					return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
				}
				return nil
			}}, sftptest.LinkConfig{})
		source := filepath.Join(b.dir, "source")
		for i := range 20 {
			dir := fmt.Sprint(i)
			fill(t, filepath.Join(source, dir), numbered("f", 20)...)
			for _, name := range numbered("f", 20) {
				b.server.Files.WriteFile("/copy/"+dir+"/"+name, []byte("older than new"))
			}
		}
		began := time.Now()
		s, err := b.tree(upload, source+"/.", "/copy")
		if s.Files != 400 || err != nil {
			t.Errorf("%+v, %v", s.Totals, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("files waited for %v", took)
		}
	})
}

// Nor are files that a host has no room for: asking for them again and again would take hours.
func TestFullHostIsNotPutDownToALimit(t *testing.T) {
	const files, room = 150, 60
	for name, state := range map[string]wire.StatVFSReply{
		"no inodes": {BlockSize: 4096, FragmentSize: 4096, Blocks: 1 << 20,
			BlocksAvailable: 1 << 19, Files: room},
		"no bytes": {BlockSize: 4096, FragmentSize: 4096, Blocks: 1 << 20},
		"read-only": {BlockSize: 4096, FragmentSize: 4096, Blocks: 1 << 20,
			BlocksAvailable: 1 << 19, Flags: wire.StatVFSReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			var opened, refused atomic.Int64
			b := newBench(t, sftptest.Script{StatVFS: &state,
				Extensions: []wire.ExtensionPair{{Name: wire.ExtPosixRename, Data: "1"},
					{Name: wire.ExtStatVFS, Data: "2"}},
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type != wire.TypeOpen || opened.Add(1) <= room {
						return nil
					}
					if refused.Add(1) == 20 { // somebody else has removed a file
						return nil
					}
					return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
				}}, sftptest.LinkConfig{})
			source := filepath.Join(b.dir, "source")
			fill(t, source, numbered("f", files)...)
			s, err := b.tree(upload, source, "/copy")
			if s.Files != room+1 || s.Failed != files-room-1 || err == nil {
				t.Errorf("%+v, %v", s.Totals, err)
			}
			if n := opened.Load(); n > files*2 {
				t.Errorf("%d requests to open %d files", n, files)
			}
		})
	}
}

// On such a host a directory that has more subdirectories than wait to be listed is copied, too:
// they are listed before all of its entries have been looked at.
func TestManyDirectoriesWhereHandlesAreFew(t *testing.T) {
	t.Parallel()
	const dirs, files = 4200, 12400
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Bool
		b := newTreeBench(t, sftptest.Script{ReaddirNames: 1000,
			Intercept: func(r sftptest.Request) []sftptest.Action {
				switch {
				case r.Type == wire.TypeOpendir && r.Path == "/source/big" && !refused.Swap(true):
					return []sftptest.Action{sftptest.Refuse(wire.Failure, ""),
						sftptest.Delay(100 * time.Millisecond)}
				case r.Type == wire.TypeReaddir && r.Path == "/source/other":
					return []sftptest.Action{sftptest.Delay(300 * time.Millisecond)}
				}
				return nil
			}}, sftptest.LinkConfig{})
		b.server.Files.Mkdir("/source/other")
		for _, name := range numbered("dir", dirs) {
			b.server.Files.Mkdir("/source/big/" + name)
		}
		for _, name := range numbered("file", files) {
			b.server.Files.WriteFile("/source/big/"+name, nil)
		}
		s, err := b.tree(download, "/source", filepath.Join(b.dir, "copy"), func(tree *treeJob) {
			tree.TreeOptions.Filter = rules("file*")
		})
		if err != nil || s.Directories != dirs+3 || !refused.Load() {
			t.Errorf("%+v, %v", s.Totals, err)
		}
	})
}

// A file that an earlier run left is not given up because the host allows no more handles for now.
func TestCrowdedHostKeepsWhatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
			RateBytesPerSec: 8 << 20}
		b := newTreeBench(t, sftptest.Script{}, link)
		if err := os.Mkdir(filepath.Join(b.dir, "source"), 0o755); err != nil {
			t.Fatal(err)
		}
		data := random(20 << 20)
		b.local("source/file", data)
		b.server.Files.Mkdir("/target")
		run := func() (transfer.Summary, error) {
			return b.tree(upload, filepath.Join(b.dir, "source")+"/.", "/target",
				func(j *treeJob) {
					j.Options.Journal, j.Options.Resume = filepath.Join(b.dir, "journal"), true
				})
		}
		b.redials(link, func(_ int, end *sftptest.End) {
			time.AfterFunc(time.Second, func() { end.Cut(nil) })
		})
		if _, err := run(); err == nil || len(b.temporaries()) != 1 {
			t.Fatalf("%v, %q", err, b.temporaries())
		}
		b.redials(link, nil)
		b.server.AddFaults(sftptest.Fault{On: wire.TypeOpen, Path: b.temporaries()[0], Times: 1,
			Do: sftptest.Refuse(wire.Failure, "")})
		s, err := run()
		if err != nil || s.Resumed == 0 || !bytes.Equal(b.remote("/target/file"), data) {
			t.Errorf("%+v, %v, the notes are %q", s.Totals, err, b.notes())
		}
	})
}
