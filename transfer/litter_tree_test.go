package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestTreeThatGivesUpIsTidied: what a tree leaves when its only connection is cut is named, and the
// next run of the same copy removes it all, whether it resumes, goes into the directory that the
// first one made, or starts over in it.
func TestTreeThatGivesUpIsTidied(t *testing.T) {
	t.Parallel()
	for seed := range uint64(soak.Pick(1, 20)) {
		for _, direction := range []way{upload, download, relay} {
			for _, next := range []string{"resume", "again", "exactly"} {
				if direction != upload && seed%4 != 0 {
					continue // these leave little
				}
				t.Run(fmt.Sprintf("%v, next run %s, seed %d", direction, next, seed), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { giveUpAndTidy(t, direction, next, seed) })
				})
			}
		}
	}
}

// latin1 is a name that is no UTF-8, as old hosts often have.
const latin1 = "/caf\xe9"

func giveUpAndTidy(t *testing.T, direction way, next string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	script := sftptest.Script{}
	if rng.IntN(3) == 0 {
		script.Extensions = []wire.ExtensionPair{} // no posix-rename
	}
	link := sftptest.LinkConfig{ToServer: 5 * time.Millisecond, ToClient: 5 * time.Millisecond,
		RateBytesPerSec: 4 << 20}
	b := newBench(t, script, sftptest.LinkConfig{})
	local := b.mixed("source", 120, 600_000, rng)
	if err := os.WriteFile(filepath.Join(local, "large"), random(9<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	job := treeJob{Host: b.host, Direction: direction, Source: local, Target: latin1}
	job.Options.Journal = filepath.Join(b.dir, "journal")
	switch direction {
	case download:
		job.Source, job.Target = "/source", filepath.Join(b.dir, "target")
	case relay:
		job.Source = "/source"
		from := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		if _, err := uploadTree(t.Context(), from.host, local, "/source",
			transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		job.From = from.host
	}
	if direction == download {
		if _, err := b.tree(upload, local, "/source"); err != nil {
			t.Fatal(err)
		}
	}
	if next == "exactly" {
		job.Options.NoTargetDirectory = true
		if direction != download { // so that old files are replaced
			if _, err := b.tree(upload, local, latin1); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.redials(link, func(_ int, end *sftptest.End) {
		time.AfterFunc(time.Duration(60+rng.IntN(1500))*time.Millisecond, func() { end.Cut(nil) })
	})
	job.Host.Client = b.host.Client
	var said []string
	job.Options.Events = func(e transfer.Event) {
		if e.Message != "" {
			said = append(said, e.Message)
		}
		if e.Kind == transfer.Note && strings.Contains(e.Message, "may be left") {
			t.Errorf("it is no warning: %q", e.Message)
		}
	}
	if _, err := job.Run(t.Context()); err == nil {
		t.Fatal("it did not give up")
	}
	left := b.temporaries()
	if len(left) > 0 && !strings.Contains(strings.Join(said, "\n"), ".usftp-") {
		t.Errorf("%d are left, and not named: %q", len(left), said)
	}
	b.reconnect(sftptest.LinkConfig{})
	job.Host = b.host
	job.Options.Resume = next == "resume"
	s, err := job.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(s.Target, "source") {
		t.Errorf("it was copied to %s", s.Target)
	}
	if still := b.treeTemporaries(); len(still) > 0 {
		t.Errorf("of %d left behind, %d still are: %q", len(left), len(still), still)
	}
	if notes, _ := filepath.Glob(filepath.Join(b.dir, "journal", "*")); len(notes) > 1 {
		t.Errorf("the journal still holds %q", notes)
	}
	out := s.Target
	if direction != download {
		out = filepath.Join(b.dir, "out")
		if _, err := b.tree(download, s.Target+"/.", out); err != nil {
			t.Fatal(err)
		}
	}
	sameContents(t, local, out)
}

// TestLostRenameOfASmallFile: small files start over, so one whose rename was lost leaves no mark in
// the journal: the run's own note leads to its temporary file.
func TestLostRenameOfASmallFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// What was answered before a connection is cut off has arrived.
		link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond}
		var cut atomic.Bool
		b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{}, // no posix-rename
			Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeRename && cut.CompareAndSwap(false, true) {
					return []sftptest.Action{sftptest.Hangup()}
				}
				return nil
			}}, link)
		source := b.mixed("source", 1, 1000, rand.New(rand.NewPCG(1, 7)))
		journal := filepath.Join(b.dir, "journal")
		run := func() error {
			b.redials(link, nil)
			_, err := b.tree(upload, source, "/target", func(j *treeJob) {
				j.Options.Journal = journal
			})
			return err
		}
		if run() == nil {
			t.Fatal("it did not fail")
		}
		if marks, _ := filepath.Glob(filepath.Join(journal, "*.file.json")); len(marks) > 0 {
			t.Errorf("the journal holds %q", marks)
		}
		if left := b.treeTemporaries(); len(left) != 1 {
			t.Errorf("%q are left", left)
		}
		if err := run(); err != nil {
			t.Error(err)
		}
		if left := b.treeTemporaries(); len(left) > 0 {
			t.Errorf("%q are left after the next run", left)
		}
	})
}

// TestOldFileOfATreeGetsItsNameBack: on a host without posix-rename a run ends between the two steps
// of an exchange. The next run, whose source no longer has the file, gives the old one its name
// back, unless another has it by then.
func TestOldFileOfATreeGetsItsNameBack(t *testing.T) {
	for _, size := range []int{100, 600_000} {
		for there, want := range map[string]string{"": "old", "another": "another"} {
			t.Run(fmt.Sprintf("%d bytes, with %q in its place", size, there), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					// What was answered before a connection is cut off has arrived.
					link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond}
					b := newBench(t, sftptest.Script{Extensions: []wire.ExtensionPair{},
						Intercept: func(r sftptest.Request) []sftptest.Action {
							if r.Type == wire.TypeRename && r.Path2 == "/target/file" && !isOld(r.Path) {
								return []sftptest.Action{sftptest.Hangup()}
							}
							return nil
						}}, link)
					b.server.Files.WriteFile("/target/file", []byte("old"))
					source := filepath.Join(b.dir, "source")
					file := filepath.Join(source, "file")
					must(t, os.Mkdir(source, 0o755))
					must(t, os.WriteFile(filepath.Join(source, "kept"), nil, 0o644))
					must(t, os.WriteFile(file, random(size), 0o644))
					run := func() error {
						b.redials(link, nil)
						_, err := b.tree(upload, source, "/target", func(j *treeJob) {
							j.Options.Journal = filepath.Join(b.dir, "journal")
							j.Options.NoTargetDirectory = true
						})
						return err
					}
					if run() == nil {
						t.Fatal("the first run did not fail")
					}
					if left := b.treeTemporaries(); len(left) != 2 || !slices.ContainsFunc(left, isOld) {
						t.Fatalf("%q are left", left)
					}
					must(t, os.Remove(file))
					if there != "" {
						b.server.Files.WriteFile("/target/file", []byte(there))
					}
					if err := run(); err != nil {
						t.Fatal(err)
					}
					if got := string(b.remote("/target/file")); got != want {
						t.Errorf("it is %q", got)
					}
					if left := b.treeTemporaries(); len(left) > 0 {
						t.Errorf("%q are left", left)
					}
				})
			})
		}
	}
}

// TestLitterWhereTheSourceIsNoMore: what a killed run left in directories that the source no longer
// has, or that are left out now, is removed by the next run all the same.
func TestLitterWhereTheSourceIsNoMore(t *testing.T) {
	for _, direction := range []way{upload, download, relay} {
		for _, sync := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, sync %v", direction, sync), func(t *testing.T) {
				b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				here := end{root: filepath.Join(b.dir, "tree")}
				there := end{root: "/tree", files: b.server.Files}
				source, target, from := here, there, b.host
				switch direction {
				case download:
					source, target = there, here
				case relay:
					other := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
					source, from = end{root: "/source", files: other.server.Files}, other.host
				}
				dirs := []string{"kept", "gone", "gone/deep", "excluded", "excluded/deep", "file"}
				for _, dir := range dirs {
					source.write(t, dir+"/a")
				}
				journal := filepath.Join(b.dir, "journal")
				run := func(exclude []string, event func(transfer.Event)) {
					t.Helper()
					dst, src := direction.endpoints(b.host, from, source.root, target.root, nil,
						nil)
					o := transfer.TreeOptions{Filter: rules(exclude...),
						Options: transfer.Options{Journal: journal,
							Events:      event,
							Destination: transfer.Destination{NoTargetDirectory: true}}}
					var err error
					if sync {
						_, err = transfer.Sync(t.Context(), dst, src,
							transfer.SyncOptions{TreeOptions: o})
					} else {
						_, err = transfer.CopyTree(t.Context(), dst, src, o)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				// A run that is killed leaves its note, and files whose names have its token.
				var note string
				var noted []byte
				run(nil, func(transfer.Event) {
					if names, _ := filepath.Glob(filepath.Join(journal, "*.run.json")); len(
						names) == 1 {
						note = names[0]
						noted, _ = os.ReadFile(note)
					}
				})
				if err := os.WriteFile(note, noted, 0o600); err != nil {
					t.Fatal(err)
				}
				token := strings.Split(filepath.Base(note), ".")[1]
				other := strings.Repeat("0", len(token)) // of a run that is still there
				for _, dir := range dirs {
					target.write(t, dir+"/.a.usftp-"+token+"abcd")
				}
				target.write(t, "gone/deep/.a.usftp-"+other+"abcd")
				source.remove(t, "gone")
				source.remove(t, "file")
				run([]string{"excluded"}, nil)
				left := b.treeTemporaries()
				if len(left) != 1 || !strings.Contains(left[0], other) {
					t.Errorf("left behind: %q", left)
				}
				if notes, _ := filepath.Glob(filepath.Join(journal, "*.run.json")); len(notes) > 0 {
					t.Errorf("the journal still holds %q", notes)
				}
			})
		}
	}
}

// TestLitterOfAVanishedSource: what an attempt left when its connection was lost is named, and goes
// with the next run, if the source is gone when the file is copied again.
func TestLitterOfAVanishedSource(t *testing.T) {
	for _, kind := range []string{"tree", "sync", "file"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source := end{root: filepath.Join(b.dir, "source")}
			source.write(t, "small")
			large := filepath.Join(source.root, "large")
			if err := os.WriteFile(large, random(9<<20), 0o644); err != nil {
				t.Fatal(err)
			}
			link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
				RateBytesPerSec: 4 << 20}
			b.redials(link, func(n int, end *sftptest.End) {
				if n == 0 {
					time.AfterFunc(time.Second, func() { end.Cut(nil) })
					return
				}
				synctest.Wait() // the lost attempt has the file open, which Windows does not remove then
				if err := os.Remove(large); err != nil {
					t.Error(err)
				}
			})
			var said []string
			run := func() (err error) {
				o := transfer.TreeOptions{}
				o.Journal, o.NoTargetDirectory = filepath.Join(b.dir, "journal"), true
				o.Retry = onceMore
				o.Events = func(e transfer.Event) { said = append(said, e.Message) }
				to, from := transfer.Remote(b.host, "/target"), transfer.Local(source.root)
				switch kind {
				case "tree":
					_, err = transfer.CopyTree(t.Context(), to, from, o)
				case "sync":
					_, err = transfer.Sync(t.Context(), to, from, transfer.SyncOptions{TreeOptions: o})
				case "file":
					_, err = transfer.Copy(t.Context(), to, transfer.Local(large), o.Options)
				}
				return err
			}
			if err := run(); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, transfer.ErrVanished) {
				t.Fatal(err)
			}
			if left := b.temporaries(); len(left) > 0 && !strings.Contains(strings.Join(said, "\n"),
				".usftp-") {
				t.Errorf("%s: %q are left, and not named: %q", kind, left, said)
			}
			if kind == "file" {
				return // there is nothing to run again
			}
			b.reconnect(sftptest.LinkConfig{})
			if err := run(); err != nil {
				t.Fatal(err)
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("%s: %q are left", kind, left)
			}
		})
	}
}

// sweptTree is a tree on a host in which a killed run has left a file in each of many directories
// that are excluded by now.
type sweptTree struct {
	*bench
	source, journal, token string
}

const sweptDirs = 32

func newSweptTree(t *testing.T, link sftptest.LinkConfig) *sweptTree {
	t.Helper()
	s := &sweptTree{bench: newTreeBench(t, sftptest.Script{}, link)}
	s.source, s.journal = filepath.Join(s.dir, "tree"), filepath.Join(s.dir, "journal")
	here := end{root: s.source}
	here.write(t, "kept/a")
	for i := range sweptDirs {
		here.write(t, fmt.Sprintf("excluded/%d/a", i))
	}
	var note string
	var noted []byte
	if err := s.sync(nil, nil, func(transfer.Event) {
		if names, _ := filepath.Glob(filepath.Join(s.journal, "*.run.json")); len(names) == 1 {
			note = names[0]
			noted, _ = os.ReadFile(note)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(note, noted, 0o600); err != nil {
		t.Fatal(err)
	}
	s.token = strings.Split(filepath.Base(note), ".")[1]
	for i := range sweptDirs {
		s.server.Files.WriteFile(fmt.Sprintf("/tree/excluded/%d/.a.usftp-%sabcd", i, s.token), nil)
	}
	return s
}

func (s *sweptTree) sync(exclude []string, within *transfer.SyncWithin,
	event func(transfer.Event)) error {
	o := transfer.TreeOptions{Filter: rules(exclude...), Options: transfer.Options{Journal: s.journal,
		Events: event}}
	_, err := transfer.Sync(context.Background(), transfer.Remote(s.host, "/tree"),
		transfer.Local(s.source),
		transfer.SyncOptions{TreeOptions: o, Within: within})
	return err
}

// check compares how many files are left, and whether the journal says so.
func (s *sweptTree) check(want int) {
	s.t.Helper()
	if left := s.treeTemporaries(); len(left) != want {
		s.t.Errorf("%d files are left, want %d", len(left), want)
	}
	notes, _ := filepath.Glob(filepath.Join(s.journal, "*.run.json"))
	if (len(notes) > 0) != (want > 0) {
		s.t.Errorf("%d files are left, and the journal holds %q", want, notes)
	}
}

// TestExcludedDirectoriesAreSweptTogether: directories that only have to be cleaned are listed
// several at a time, as others are.
func TestExcludedDirectoriesAreSweptTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		s := newSweptTree(t, sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		began := time.Now()
		if err := s.sync([]string{"excluded"}, nil, nil); err != nil {
			t.Fatal(err)
		}
		s.check(0)
		if trips := time.Since(began) / trip; trips > 2*sweptDirs {
			t.Errorf("%d directories took %d round trips", sweptDirs, trips)
		}
	})
}

// TestSyncOfAPartSweepsNothingElse: a sync that is limited to a part of the tree, as a watch makes
// them, lists no directory beside that, and leaves the note for one that is not limited.
func TestSyncOfAPartSweepsNothingElse(t *testing.T) {
	s := newSweptTree(t, sftptest.LinkConfig{})
	s.server.ForgetRequests()
	if err := s.sync(nil, &transfer.SyncWithin{Dirs: map[string]bool{"kept": true}},
		nil); err != nil {
		t.Fatal(err)
	}
	s.check(sweptDirs)
	for _, r := range s.server.Requests(wire.TypeOpendir) {
		if strings.HasPrefix(r.Path, "/tree/excluded") {
			t.Errorf("%s was listed", r.Path)
		}
	}
	if err := s.sync(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	s.check(0)
}

// TestSweepingIsBounded: of more directories than fit in memory as many are swept as do, and the
// note stays.
func TestSweepingIsBounded(t *testing.T) {
	s := newSweptTree(t, sftptest.LinkConfig{})
	transfer.SetMostNames(t, 9) // one is the directory that holds the others
	if err := s.sync([]string{"excluded"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	left := len(s.treeTemporaries())
	if left < sweptDirs-9 || left == sweptDirs {
		t.Errorf("%d files are left", left)
	}
	s.check(left)
	transfer.SetMostNames(t, 1<<17)
	if err := s.sync([]string{"excluded"}, nil, nil); err != nil {
		t.Fatal(err)
	}
	s.check(0)
}

// An end is a tree on this machine, or on a server.
type end struct {
	root  string
	files *sftptest.Files // nil on this machine
}

func (e end) write(t *testing.T, name string) {
	t.Helper()
	if e.files != nil {
		e.files.WriteFile(e.root+"/"+name, []byte(name))
		return
	}
	name = filepath.Join(e.root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
		t.Fatal(err)
	}
}

// remove removes a file, or a directory with everything in it.
func (e end) remove(t *testing.T, name string) {
	t.Helper()
	if e.files != nil {
		e.files.Remove(e.root + "/" + name)
	} else if err := os.RemoveAll(filepath.Join(e.root, name)); err != nil {
		t.Fatal(err)
	}
}

// treeTemporaries is temporaries including those of local trees.
func (b *bench) treeTemporaries() (names []string) {
	names = b.temporaries()
	filepath.WalkDir(b.dir, func(name string, _ os.DirEntry, _ error) error {
		if strings.Contains(filepath.Base(name), ".usftp-") {
			names = append(names, name)
		}
		return nil
	})
	return names
}
