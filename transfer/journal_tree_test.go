package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestResumeTreeThatMadeItsTarget: an interrupted command continues where it was, although its
// target is a directory by then and copies go into directories. The same holds for repeating a
// completed command within a day. Without Resume only an interrupted command goes to the same
// place, for a week; otherwise the target means what it means to scp.
func TestResumeTreeThatMadeItsTarget(t *testing.T) {
	for _, direction := range []way{upload, download,
		local} {
		t.Run(direction.String(), func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source := b.sample("source")
			far := filepath.Join(b.dir, "far")
			target := filepath.Join(b.dir, "target")
			from, to := source, target
			switch direction {
			case upload:
				to = "/target"
			case download:
				if _, err := b.tree(upload, source, "/source"); err != nil {
					t.Fatal(err)
				}
				from = "/source"
			}
			journal, said := filepath.Join(b.dir, "journal"), ""
			run := func(resume bool, stop bool) error {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tree := treeJob{Host: b.host, Direction: direction, Source: from, Target: to}
				tree.Options.Journal, tree.Options.Resume = journal, resume
				if stop {
					tree.TreeOptions.MaxFiles = 1 // so that others are left when one is done
				}
				tree.Options.Events = func(e transfer.Event) {
					if stop && e.Kind == transfer.Done {
						cancel()
					}
					if e.Kind == transfer.Note && strings.Contains(e.Message, "continued in the same place") {
						said = e.Message
					}
				}
				_, err := tree.Run(ctx)
				return err
			}
			same := func(below string) {
				t.Helper()
				at := filepath.Join(target, below)
				if direction == upload {
					writable(far)
					os.RemoveAll(far)
					if _, err := b.tree(download, "/target/"+below+"/.", far); err != nil {
						t.Fatal(err)
					}
					at = far
				}
				sameTrees(t, source, at)
				sameContents(t, source, at)
			}
			if err := run(false, true); err == nil {
				t.Fatal("it was not interrupted")
			}
			if err := run(true, true); err == nil {
				t.Fatal("it was not interrupted again")
			}
			if err := run(false, true); err == nil {
				t.Fatal("it was not interrupted a third time")
			}
			if said == "" {
				t.Error("nobody said that the target itself is the copy")
			}
			if err := run(true, false); err != nil {
				t.Fatal(err)
			}
			same("")
			notes := func(want int) []os.DirEntry {
				t.Helper()
				notes, _ := os.ReadDir(journal)
				if len(notes) != want {
					t.Errorf("%d notes are left, want %d", len(notes), want)
				}
				return notes
			}
			again := func(nested bool) {
				t.Helper()
				s, err := b.tree(direction, from, to, func(tree *treeJob) {
					tree.Options.Journal, tree.Options.Resume = journal, true
				})
				if err != nil || nested != strings.HasSuffix(s.Target, "source") ||
					!nested && (s.Files != 0 || s.Kept == 0) {
					t.Errorf("%s: %d copied, %d kept, %v", s.Target, s.Files, s.Kept, err)
				}
			}
			again(false) // it is complete, and stays where it is
			again(false)
			same("")
			for _, note := range notes(1) { // this is not remembered forever
				long := time.Now().Add(-25 * time.Hour)
				if err := os.Chtimes(filepath.Join(journal, note.Name()), long, long); err != nil {
					t.Fatal(err)
				}
			}
			again(true)
			again(true)
			same("source")
			notes(0)
		})
	}
}

// TestCompletedTreesAreForgotten: the journal remembers only the latest completed trees.
func TestCompletedTreesAreForgotten(t *testing.T) {
	t.Parallel()
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	journal, source := t.TempDir(), b.sample("source")
	now := time.Now()
	for i := range 1100 {
		name := filepath.Join(journal, fmt.Sprintf("%032d.tree.json", i))
		then := now.Add(time.Duration(i-2000) * time.Second)
		if err := errors.Join(os.WriteFile(name, []byte("x"), 0o600),
			os.Chtimes(name, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.tree(upload, source, "/target", func(tree *treeJob) {
		tree.Options.Journal = journal
	}); err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadDir(journal)
	_, old := os.Stat(filepath.Join(journal, fmt.Sprintf("%032d.tree.json", 100)))
	_, recent := os.Stat(filepath.Join(journal, fmt.Sprintf("%032d.tree.json", 1099)))
	if err != nil || len(notes) != 1000 || old == nil || recent != nil {
		t.Errorf("%d notes; %v, %v, %v", len(notes), err, old, recent)
	}
}

// TestNoTargetDirectory: the target is the copy, whether or not it is a directory. If a directory
// goes into one of the same name, an event says so.
func TestNoTargetDirectory(t *testing.T) {
	for _, direction := range []way{upload, download, local} {
		t.Run(direction.String(), func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source := b.sample("source")
			from, to := source, filepath.Join(b.dir, "to", "source")
			if err := os.Mkdir(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			switch direction {
			case upload:
				if err := b.host.Client.Mkdir("/to"); err != nil {
					t.Fatal(err)
				}
				to = "/to/source"
			case download:
				if _, err := b.tree(upload, source, "/source"); err != nil {
					t.Fatal(err)
				}
				from = "/source"
			}
			for _, step := range []struct {
				name    string
				exactly bool
				below   string
			}{{"new", false, ""}, {"-T", true, ""}, {"into its own name", false, "source"}} {
				var said []string
				s, err := b.tree(direction, from, to, func(tree *treeJob) {
					tree.Options.NoTargetDirectory = step.exactly
					tree.Options.Events = func(e transfer.Event) {
						if e.Kind == transfer.Note || e.Kind == transfer.Warning {
							said = append(said, e.Message)
						}
					}
				})
				if err != nil || filepath.ToSlash(s.Target) != path.Join(filepath.ToSlash(to),
					step.below) {
					t.Errorf("%s: %s, %v", step.name, s.Target, err)
				}
				if told := strings.Contains(strings.Join(said, "\n"),
					"under the same name"); told != (step.below != "") {
					t.Errorf("%s: said %q", step.name, said)
				}
			}
			file := filepath.Join(b.dir, "file")
			if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			if direction == download {
				return
			}
			if _, err := b.tree(direction, file, to, func(tree *treeJob) {
				tree.Options.NoTargetDirectory = true
			}); !errors.Is(err, transfer.ErrIsDirectory) {
				t.Errorf("a file over a directory: %v", err)
			}
		})
	}
}

// A repeated copy replaces what the interrupted run left, also where that cannot be told by size or
// time, and nothing else, also where that has the right size.
func TestRepeatedCopyKnowsItsOwn(t *testing.T) {
	noTimes := sftptest.Script{Faults: []sftptest.Fault{
		{On: wire.TypeSetstat, Do: sftptest.Refuse(wire.PermissionDenied, "no")},
		{On: wire.TypeFsetstat, Do: sftptest.Refuse(wire.PermissionDenied, "no")},
		{Extension: wire.ExtLsetstat, Do: sftptest.Refuse(wire.PermissionDenied, "no")},
	}}
	data := append(random(100<<10), make([]byte, 3000)...)
	cut := append(append(slices.Clone(data[:40<<10]), make([]byte, 1<<10)...), data[41<<10:60<<10]...)
	other := append([]byte("mine"), data[4:]...)
	for _, have := range []struct {
		name   string
		script sftptest.Script
		data   []byte
		ours   bool
	}{
		{"equal, where no times are set", noTimes, data, true},
		{"written in place and cut off", sftptest.Script{}, data[:50000], true},
		{"with a hole", sftptest.Script{}, cut, true},
		{"empty", sftptest.Script{}, nil, true},
		{"of the same size", sftptest.Script{}, other, false},
		{"of the same size, where no times are set", noTimes, other, false},
		{"shorter", sftptest.Script{}, other[:1000], false},
		{"longer", sftptest.Script{}, append(slices.Clone(data), 0), false},
	} {
		for _, direction := range []way{upload, download, local} {
			t.Run(direction.String()+" "+have.name, func(t *testing.T) {
				b := newTreeBench(t, have.script, sftptest.LinkConfig{})
				from, to := filepath.Join(b.dir, "source"), filepath.Join(b.dir, "target")
				target := to
				write := func(name string, data []byte) {
					if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
						os.WriteFile(name, data, 0o644)); err != nil {
						t.Fatal(err)
					}
				}
				write(filepath.Join(from, "a"), data)
				write(filepath.Join(from, "b"), data)
				switch direction {
				case upload:
					to = "/target"
				case download:
					from = "/source"
					b.server.Files.WriteFile("/source/a", data)
					b.server.Files.WriteFile("/source/b", data)
				}
				if _, err := b.oneByOne(direction, from, to, true); err == nil {
					t.Fatal("it was not interrupted")
				}
				read := func(name string) []byte {
					data, _ := os.ReadFile(filepath.Join(target, name))
					if direction == upload {
						data, _ = b.server.Files.ReadFile("/target/" + name)
					}
					return data
				}
				name := "a"
				if read("b") == nil {
					name = "b"
				}
				if direction == upload {
					b.server.Files.WriteFile("/target/"+name, have.data)
				} else {
					write(filepath.Join(target, name), have.data)
				}
				_, err := b.oneByOne(direction, from, to, false)
				refused := err != nil && strings.Contains(err.Error(), "so it is not replaced")
				if refused == have.ours || err != nil && !refused {
					t.Errorf("it ends with %v", err)
				}
				want := have.data
				if have.ours {
					want = data
				}
				if got := read(name); !bytes.Equal(got, want) {
					t.Errorf("%d bytes are there, not what should be", len(got))
				}
			})
		}
	}
}

// What has come into the target since an earlier run was interrupted is not replaced when the same
// command is repeated.
func TestRepeatedCopyReplacesNothingElse(t *testing.T) {
	for _, direction := range []way{upload, download, local} {
		t.Run(direction.String(), func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source, target := filepath.Join(b.dir, "source"), filepath.Join(b.dir, "target")
			fill(t, source, "a", "b", "dir/c")
			from, to := source, target
			switch direction {
			case upload:
				to = "/target"
			case download:
				from = "/source"
				for _, name := range []string{"a", "b", "dir/c"} {
					b.server.Files.WriteFile("/source/"+name, []byte(name))
				}
			}
			if _, err := b.oneByOne(direction, from, to, true); err == nil {
				t.Fatal("it was not interrupted")
			}
			const mine = "somebody else's contents"
			read := func(name string) string {
				data, _ := os.ReadFile(filepath.Join(target, name))
				if direction == upload {
					data, _ = b.server.Files.ReadFile("/target/" + name)
				}
				return string(data)
			}
			name := ""
			for _, candidate := range []string{"a", "b", "dir/c"} {
				if read(candidate) == "" {
					name = candidate
				}
			}
			if direction == upload {
				b.server.Files.WriteFile("/target/"+name, []byte(mine))
			} else if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(target, name)), 0o755),
				os.WriteFile(filepath.Join(target, name), []byte(mine), 0o644)); err != nil {
				t.Fatal(err)
			}
			s, err := b.oneByOne(direction, from, to, false)
			if err == nil || s.Failed != 1 || s.Files+s.Kept != 2 ||
				!strings.Contains(err.Error(), "so it is not replaced") {
				t.Errorf("%+v, %v", s.Totals, err)
			}
			if got := read(name); got != mine {
				t.Errorf("%s has become %q", name, got)
			}
		})
	}
}

// oneByOne copies the files of a tree one after the other, and notes it in the journal. If it is to
// stop, it is interrupted after the first file.
func (b *bench) oneByOne(direction way, from, to string, stop bool) (transfer.Summary, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tree := treeJob{Host: b.host, Direction: direction, Source: from, Target: to}
	tree.TreeOptions.MaxFiles = 1
	tree.Options.Journal = filepath.Join(b.dir, "journal")
	tree.Options.Events = func(e transfer.Event) {
		if stop && e.Kind == transfer.Done {
			cancel()
		}
	}
	return tree.Run(ctx)
}

// Nor is it replaced if it is a link, or has the name of one.
func TestRepeatedCopyReplacesNoLink(t *testing.T) {
	testenv.Symlink(t, "nothing", filepath.Join(t.TempDir(), "link"))
	for _, direction := range []way{upload, download, local} {
		t.Run(direction.String(), func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			source, target := filepath.Join(b.dir, "source"), filepath.Join(b.dir, "target")
			fill(t, source, "a", "b")
			testenv.Symlink(t, "one", filepath.Join(source, "link1"))
			testenv.Symlink(t, "two", filepath.Join(source, "link2"))
			from, to := source, target
			switch direction {
			case upload:
				to = "/target"
			case download:
				from = "/source"
				if _, err := b.tree(upload, source, from); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.oneByOne(direction, from, to, true); err == nil {
				t.Fatal("it was not interrupted")
			}
			put := func(name, text string, link bool) {
				switch at := filepath.Join(target, name); {
				case direction == upload && link:
					b.server.Files.Remove("/target/" + name)
					b.server.Files.Symlink(text, "/target/"+name)
				case direction == upload:
					b.server.Files.Remove("/target/" + name)
					b.server.Files.WriteFile("/target/"+name, []byte(text))
				case link:
					os.Remove(at)
					testenv.Symlink(t, text, at)
				default:
					os.Remove(at)
					if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
			put("link1", "mine", false)
			put("link2", "mine", true)
			put("a", "mine", true)
			s, err := b.oneByOne(direction, from, to, false)
			if err == nil || s.Failed != 3 || s.Files+s.Kept != 1 ||
				!strings.Contains(err.Error(), "so it is not replaced") {
				t.Errorf("%+v, %v", s.Totals, err)
			}
			if direction == upload {
				target = filepath.Join(b.dir, "back")
				if _, err := b.tree(download, "/target", target); err != nil {
					t.Fatal(err)
				}
			}
			if data, err := os.ReadFile(filepath.Join(target, "link1")); string(data) != "mine" {
				t.Errorf("the file has become %q, %v", data, err)
			}
			for _, name := range []string{"link2", "a"} {
				if to, err := os.Readlink(filepath.Join(target, name)); to != "mine" {
					t.Errorf("%s leads to %q, %v", name, to, err)
				}
			}
		})
	}
}

// A target that the host did not let a copy make was made by nobody, and is not continued: not even
// if there is one later.
func TestRefusedTargetIsNotContinued(t *testing.T) {
	for _, to := range []string{"/closed/target", "/missing/target"} {
		refused := true
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if refused && r.Type == wire.TypeMkdir && r.Path == "/closed/target" {
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "no")}
			}
			return nil
		}}, sftptest.LinkConfig{})
		b.server.Files.WriteFile("/closed/other", nil)
		source := b.sample("source")
		said := ""
		run := func() (transfer.Summary, error) {
			return b.tree(upload, source, to, func(tree *treeJob) {
				tree.Options.Journal = filepath.Join(b.dir, "journal")
				tree.Options.Events = func(e transfer.Event) { said += e.Message }
			})
		}
		for range 2 {
			if _, err := run(); err == nil {
				t.Errorf("%s was made", to)
			}
		}
		refused = false
		b.server.Files.WriteFile(to+"/somebody else's", nil)
		if s, err := run(); err != nil || s.Target != to+"/source" {
			t.Errorf("%s: then the copy goes to %s, %v", to, s.Target, err)
		}
		if strings.Contains(said, "continued") {
			t.Errorf("%s: it says %s", to, said)
		}
	}
}
