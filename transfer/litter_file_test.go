package transfer_test

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestFailedRunForgetsNothing: a run that fails without continuing what an earlier one left keeps
// the journal's note of it, so that a third run continues from there or removes it.
func TestFailedRunForgetsNothing(t *testing.T) {
	for name, second := range map[string]sftptest.Action{
		"refused": sftptest.Refuse(wire.NoSpaceOnFilesystem, ""), "lost": sftptest.Hangup()} {
		for _, resume := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resume %v", name, resume), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// What was answered before a connection is cut off has arrived.
					link := sftptest.LinkConfig{ToServer: time.Millisecond,
						ToClient: time.Millisecond}
					var run atomic.Int64
					b := newBench(t, sftptest.Script{
						Intercept: func(r sftptest.Request) []sftptest.Action {
							switch {
							case r.Type != wire.TypeWrite || r.Offset < 1<<20:
							case run.Load() == 1:
								return []sftptest.Action{sftptest.Hangup()}
							case run.Load() == 2:
								return []sftptest.Action{second}
							}
							return nil
						}}, link)
					data := random(3 << 20)
					source, journal := b.local("source", data), filepath.Join(b.dir, "journal")
					next := func(resume bool) (transfer.Result, error) {
						run.Add(1)
						b.redials(link, nil)
						return b.job(upload, source, "/target", func(j *copyJob) {
							j.Options.Journal, j.Options.Resume = journal, resume
						})
					}
					if result, err := next(false); err == nil || result.LeftBehind == "" {
						t.Fatalf("the first run: %+v, %v", result, err)
					}
					if _, err := next(false); err == nil {
						t.Fatal("the second run succeeded")
					}
					if notes, err := os.ReadDir(journal); len(notes) != 1 {
						t.Errorf("%d notes are in the journal, %v", len(notes), err)
					}
					result, err := next(resume)
					if err != nil || !bytes.Equal(b.remote("/target"), data) ||
						resume != (result.Resumed > 0) {
						t.Errorf("%+v, %v", result, err)
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
					if notes, _ := os.ReadDir(journal); len(notes) > 0 {
						t.Errorf("%d notes are left in the journal", len(notes))
					}
				})
			})
		}
	}
}

// TestOldFileThatSteppedAside: on a host without posix-rename the old file steps aside until the
// new one has its name. Whenever the connection breaks, the next run of the same copy finds it, and
// if that run fails the old file has its name back.
func TestOldFileThatSteppedAside(t *testing.T) {
	t.Parallel()
	for _, cut := range []string{"before it steps aside", "after it stepped aside",
		"before the new one has the name",
		"after the new one has the name"} {
		for _, resume := range []bool{false, true} {
			for _, fails := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, resume %v, fails %v", cut, resume, fails),
					func(t *testing.T) {
						var run atomic.Int64
						b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
							Intercept: func(r sftptest.Request) []sftptest.Action {
								aside := r.Path == "/target"
								lost := []sftptest.Action{sftptest.Hangup()}
								if strings.HasPrefix(cut, "after") {
									lost = []sftptest.Action{sftptest.LastReply(), sftptest.Drop()}
								}
								switch {
								case run.Load() == 2 && fails && (r.Type == wire.TypeWrite ||
									r.Type == wire.TypeRename && r.Path2 == "/target" &&
										!isOld(r.Path)):
									return []sftptest.Action{
										sftptest.Refuse(wire.NoSpaceOnFilesystem,
											"")}
								case run.Load() != 1 || r.Type != wire.TypeRename,
									aside != strings.HasSuffix(cut, "aside"):
									return nil
								}
								return lost
							}}, sftptest.LinkConfig{})
						b.server.Files.WriteFile("/target", []byte("old"))
						source, journal := b.local("source", random(1<<20)),
							filepath.Join(b.dir, "journal")
						next := func(resume bool) error {
							run.Add(1)
							b.redials(sftptest.LinkConfig{}, nil)
							_, err := b.job(upload, source, "/target", func(j *copyJob) {
								j.Options.Journal, j.Options.Resume = journal, resume
							})
							return err
						}
						if next(false) == nil {
							t.Fatal("the first run succeeded")
						}
						err := next(resume)
						got := b.remote("/target")
						if whole := bytes.Equal(got, random(1<<20)); !whole && (!fails ||
							string(got) != "old") ||
							err == nil && !whole || err != nil && !fails {
							t.Errorf("%d bytes are there, %v", len(got), err)
						}
						if err := next(resume); err != nil || !bytes.Equal(b.remote("/target"),
							random(1<<20)) {
							t.Error(err)
						}
						if left := b.temporaries(); len(left) > 0 {
							t.Errorf("left behind: %q", left)
						}
						if notes, _ := os.ReadDir(journal); len(notes) > 0 {
							t.Errorf("%d notes are left in the journal", len(notes))
						}
					})
			}
		}
	}
}

// TestNewFileGoesDuringItsExchange: on a host without posix-rename a connection is lost between the
// two steps of an exchange, and somebody removes the new file. The old one has its name back while
// the new one is copied once more.
func TestNewFileGoesDuringItsExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		var lost, backToOld atomic.Bool
		var newName string
		b = newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
			Intercept: func(r sftptest.Request) []sftptest.Action {
				switch {
				case r.Type == wire.TypeRename && !isOld(r.Path) && r.Path2 == "/target" &&
					lost.CompareAndSwap(false, true):
					newName = r.Path
					return []sftptest.Action{sftptest.Hangup()}
				case r.Type == wire.TypeWrite && lost.Load():
					old, err := b.server.Files.ReadFile("/target")
					backToOld.Store(err == nil && string(old) == "old")
				}
				return nil
			}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/target", []byte("old"))
		b.redials(sftptest.LinkConfig{}, func(n int, _ *sftptest.End) {
			if n > 0 {
				b.server.Files.Remove(newName)
			}
		})
		_, err := b.job(upload, b.local("source", random(1<<20)), "/target",
			func(j *copyJob) { j.Options.Retry = onceMore })
		if err != nil || !bytes.Equal(b.remote("/target"), random(1<<20)) || !backToOld.Load() {
			t.Errorf("%v; the old file had its name: %v", err, backToOld.Load())
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// TestLinkInPlaceOfAnOldFile: on a host without posix-rename a connection is lost between the two
// steps of an exchange, and somebody puts a link in the old file's place. The next attempt, or run,
// replaces the link, whose permissions are everybody's and mean nothing.
func TestLinkInPlaceOfAnOldFile(t *testing.T) {
	for size, retries := range map[int]bool{len("elsewhere"): true, 1 << 20: true, 2 << 20: false} {
		t.Run(fmt.Sprintf("%d bytes, retries %v", size, retries), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b *bench
				var lost atomic.Bool
				swap := func(newName string) {
					b.server.Files.Remove(newName)
					b.server.Files.Symlink("elsewhere", "/target")
				}
				b = newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Type == wire.TypeRename && !isOld(r.Path) && r.Path2 == "/target" &&
							lost.CompareAndSwap(false, true) {
							return []sftptest.Action{sftptest.Call("swap",
								func(r sftptest.Request) { swap(r.Path) }), sftptest.Hangup()}
						}
						return nil
					}}, sftptest.LinkConfig{})
				b.server.Files.WriteFile("/target", []byte("old"))
				must(t, b.server.Files.SetMode("/target", 0o600))
				source := b.local("source", random(size))
				must(t, os.Chmod(source, 0o600))
				next := func() error {
					b.redials(sftptest.LinkConfig{}, nil)
					_, err := b.job(upload, source, "/target", func(j *copyJob) {
						j.Options.Journal = filepath.Join(b.dir, "journal")
						if j.Options.ReplaceLink = true; retries {
							j.Options.Retry = onceMore
						}
					})
					return err
				}
				err := next()
				if !retries {
					if err == nil {
						t.Fatal("the first run succeeded")
					}
					err = next()
				}
				is, lookErr := b.server.Files.Lstat("/target")
				want := uint32(0o100600)
				if runtime.GOOS == "windows" { // where no file is for its owner alone
					want = 0o100644
				}
				if err != nil || lookErr != nil || is.Permissions != want {
					t.Errorf("the target has mode %o, %v, %v", is.Permissions, lookErr, err)
				}
				if left := b.temporaries(); len(left) > 0 || !bytes.Equal(b.remote("/target"),
					random(size)) {
					t.Errorf("left behind: %q", left)
				}
			})
		})
	}
}

// TestReplacementWithoutLstat: on a host that neither replaces files by renaming nor answers LSTAT, a
// copy that loses its connection at any step of the exchange completes it.
func TestReplacementWithoutLstat(t *testing.T) {
	t.Parallel()
	for when, do := range map[string]sftptest.Action{"before": sftptest.Hangup(),
		"after": sftptest.Truncate(0)} {
		for step, request := range []sftptest.Fault{{On: wire.TypeRename},
			{On: wire.TypeRename, Skip: 1}, {On: wire.TypeRemove}} {
			t.Run(fmt.Sprintf("%s step %d", when, step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					request.Times, request.Do = 1, do
					b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
						Refuse: []wire.Type{wire.TypeLstat}, Faults: []sftptest.Fault{request}},
						sftptest.LinkConfig{})
					b.server.Files.WriteFile("/target", []byte("old"))
					b.redials(sftptest.LinkConfig{}, nil)
					_, err := b.job(upload, b.local("source", random(1<<20)), "/target",
						func(j *copyJob) { j.Options.Retries = 1 })
					if left := b.temporaries(); err != nil || len(left) > 0 ||
						!bytes.Equal(b.remote("/target"), random(1<<20)) {
						t.Errorf("%v; left behind: %q", err, left)
					}
				})
			})
		}
	}
}

// TestRenameCarriedOutLate: a host without posix-rename gives a new file its name only when the
// next connection asks for that again, which then fails. The new file keeps its name, also where
// RENAME replaces files, and the old one is removed.
func TestRenameCarriedOutLate(t *testing.T) {
	for _, replaces := range []bool{false, true} {
		var b *bench
		var named atomic.Int32
		b = newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
			Intercept: func(r sftptest.Request) []sftptest.Action {
				switch {
				case r.Type != wire.TypeRename || r.Path2 != "/target":
					return nil
				case isOld(r.Path):
					return []sftptest.Action{sftptest.Call("back", func(r sftptest.Request) {
						if replaces {
							b.server.Files.Remove(r.Path2)
						}
					})}
				case named.Add(1) == 1:
					return []sftptest.Action{sftptest.Hangup()}
				}
				return []sftptest.Action{sftptest.Call("late", func(r sftptest.Request) {
					if err := b.server.Files.Rename(r.Path, r.Path2); err != nil {
						t.Error(err)
					}
				})}
			}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/target", []byte("old"))
		b.redials(sftptest.LinkConfig{}, nil)
		_, err := b.job(upload, b.local("source", []byte("new")), "/target",
			func(j *copyJob) { j.Options.Retry = onceMore })
		if got := string(b.remote("/target")); err != nil || got != "new" {
			t.Errorf("replaces %v: the target is %q, %v", replaces, got, err)
		}
		if left := b.temporaries(); len(left) > 0 || named.Load() != 2 {
			t.Errorf("replaces %v: %q is left after %d renames", replaces, left, named.Load())
		}
	}
}

// isOld reports whether a name is that of a file that stepped aside.
func isOld(name string) bool {
	_, old := localfs.OldNameOf(path.Base(name))
	return old
}

// TestLinkThatCannotReplace: what a link is to replace keeps its name, or gets it back, if the host
// then refuses to give that name to the link, or the connection is lost.
func TestLinkThatCannotReplace(t *testing.T) {
	for name, action := range map[string][]sftptest.Action{
		"refused": {sftptest.Refuse(wire.Failure, "")}, "lost": {sftptest.Hangup()},
		"answer lost": {sftptest.LastReply(), sftptest.Drop()}, "succeeds": nil} {
		for _, step := range []string{"first", "second"} {
			for _, old := range []string{"file", "link"} {
				t.Run(name+", "+step+", "+old, func(t *testing.T) {
					var freed, hit atomic.Bool
					b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
						Intercept: func(r sftptest.Request) []sftptest.Action {
							frees := r.Path == "/copy/link" && (r.Type == wire.TypeRename ||
								r.Type == wire.TypeRemove)
							makes := r.Type == wire.TypeSymlink && freed.Load()
							if frees {
								freed.Store(true)
							}
							if (frees && step == "first" || makes && step == "second") &&
								!hit.Swap(true) {
								return action
							}
							return nil
						}}, sftptest.LinkConfig{})
					b.redials(sftptest.LinkConfig{}, nil)
					tree := filepath.Join(b.dir, "tree")
					if err := os.MkdirAll(tree, 0o755); err != nil {
						t.Fatal(err)
					}
					testenv.Symlink(t, "new", filepath.Join(tree, "link"))
					b.server.Files.Mkdir("/copy")
					if old == "file" {
						b.server.Files.WriteFile("/copy/link", []byte("old"))
					} else if err := b.host.Client.Symlink("old", "/copy/link"); err != nil {
						t.Fatal(err)
					}
					_, err := b.tree(upload, tree+"/.", "/copy", func(tree *treeJob) {
						tree.Options.Retries = 3
						tree.Options.Backoff = func(int) time.Duration { return 0 }
					})
					if !hit.Load() {
						t.Fatal("nothing was replaced")
					}
					b.redials(sftptest.LinkConfig{}, nil)
					to, linkErr := b.host.Client.ReadLink("/copy/link")
					kept := to == "old"
					if old == "file" && linkErr != nil {
						kept = string(b.remote("/copy/link")) == "old"
					}
					if refused := name == "refused"; refused != (err != nil) || refused && !kept ||
						!refused && to != "new" {
						t.Errorf("it leads to %q (%v), kept: %v; %v", to, linkErr, kept, err)
					}
					if left := b.temporaries(); len(left) > 0 {
						t.Errorf("left behind: %q", left)
					}
				})
			}
		}
	}
}

// TestLitterInAMovedDirectory: a temporary file whose directory is moved during the copy cannot be
// removed. The error says that it is somewhere, whether the copy fails or only lacks its name, and
// whatever has the directory's name.
func TestLitterInAMovedDirectory(t *testing.T) {
	for _, tree := range []bool{false, true} {
		for _, fails := range []bool{false, true} {
			for _, replaced := range []bool{false, true} {
				var b *bench
				var source string
				var once sync.Once
				b = newBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeWrite {
						once.Do(func() {
							b.server.Files.Rename("/t/d", "/aside")
							if replaced {
								b.server.Files.WriteFile("/t/d", nil)
							}
							if fails {
								os.Truncate(source, 1<<20)
							}
						})
					}
					return nil
				}}, sftptest.LinkConfig{})
				b.server.Files.Mkdir("/t/d")
				if err := os.MkdirAll(filepath.Join(b.dir, "s/d"), 0o755); err != nil {
					t.Fatal(err)
				}
				source = b.local("s/d/file", random(3<<20))
				var err error
				if tree {
					_, err = b.tree(upload, filepath.Join(b.dir, "s")+"/.", "/t")
				} else {
					_, err = b.job(upload, source, "/t/d/file")
				}
				left := b.temporaries()
				if err == nil || len(left) != 1 || !strings.Contains(err.Error(),
					path.Base(left[0])+", whose directory was moved") {
					t.Errorf("tree %v, fails %v, replaced %v: %q are left, and it says %v", tree, fails,
						replaced, left, err)
				}
			}
		}
	}
}

// TestLitterInADirectoryThatComesBack: what a tree's copy could not remove, since the directory was
// away, as one whose file system was unmounted, is removed by the next run of the same copy.
func TestLitterInADirectoryThatComesBack(t *testing.T) {
	var b *bench
	var once sync.Once
	b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeWrite {
			once.Do(func() { b.server.Files.Rename("/t/d", "/aside") })
		}
		return nil
	}}, sftptest.LinkConfig{})
	b.server.Files.Mkdir("/t")
	b.server.Files.Mkdir("/t/d")
	source := filepath.Join(b.dir, "s")
	fill(t, source, "d/small", "d/other")
	if err := os.WriteFile(filepath.Join(source, "d/large"), random(3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	journal := t.TempDir()
	for run, fails := range []bool{true, false} {
		_, err := b.tree(upload, source+"/.", "/t", func(j *treeJob) { j.Options.Journal = journal })
		left := b.temporaries()
		if (err != nil) != fails || (len(left) > 0) != fails {
			t.Fatalf("run %d: %q are left: %v", run, left, err)
		}
		if fails {
			b.server.Files.Remove("/t/d")
			b.server.Files.Rename("/aside", "/t/d")
		}
	}
}
