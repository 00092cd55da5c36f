//go:build unix

package transfer_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestSourceReplacedAfterListing: between listing and reading, another user puts a link or a pipe
// in the place of a file or directory. What the link leads to is not read, and the pipe is not
// waited for.
func TestSourceReplacedAfterListing(t *testing.T) {
	for name, test := range map[string]struct {
		on      wire.Type
		remote  string // prefix
		replace func(tree, secret string) error
		links   transfer.LinkMode
	}{
		"file by link": {wire.TypeOpen, "/copy/.file.usftp-", func(tree, secret string) error {
			return os.Rename(filepath.Join(tree, "../linked"), filepath.Join(tree, "file"))
		}, ""},
		"file by pipe": {wire.TypeOpen, "/copy/.file.usftp-", pipeForFile, ""},
		"file by pipe, where links are followed": {wire.TypeOpen, "/copy/.file.usftp-", pipeForFile,
			transfer.LinksFollow},
		"directory by link": {wire.TypeMkdir, "/copy/dir", func(tree, secret string) error {
			os.Rename(filepath.Join(tree, "dir"), filepath.Join(tree, "../away"))
			return os.Symlink(secret, filepath.Join(tree, "dir"))
		}, ""},
		"directory by pipe": {wire.TypeMkdir, "/copy/dir", func(tree, _ string) error {
			os.Rename(filepath.Join(tree, "dir"), filepath.Join(tree, "../away"))
			return syscall.Mkfifo(filepath.Join(tree, "dir"), 0o600)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var tree, secret string
			replaced := false
			b := newTreeBench(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == test.on && strings.HasPrefix(r.Path, test.remote) && !replaced {
						replaced = true
						if err := test.replace(tree, secret); err != nil {
							t.Error(err)
						}
					}
					return nil
				}}, sftptest.LinkConfig{})
			tree, secret = filepath.Join(b.dir, "tree"), filepath.Join(b.dir, "secret")
			os.MkdirAll(filepath.Join(tree, "dir"), 0o755)
			os.Mkdir(secret, 0o700)
			for _, name := range []string{"tree/file", "tree/dir/file", "secret/file"} {
				b.local(name, []byte(strings.Split(name, "/")[0]+" data"))
			}
			os.Symlink(filepath.Join(secret, "file"), filepath.Join(b.dir, "linked"))
			s, err := b.tree(upload, tree, "/copy",
				func(job *treeJob) { job.TreeOptions.Links = test.links })
			if !replaced || err == nil || s.Failed != 1 {
				t.Errorf("replaced %v: %+v, %v", replaced, s.Totals, err)
			}
			for _, name := range b.server.Files.List() {
				if data, err := b.server.Files.ReadFile(name); err == nil &&
					strings.Contains(string(data), "secret") {
					t.Errorf("%s holds what was not to be read", name)
				}
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestRenumberedDirectory: a directory that got another inode since it was found, as on FAT when
// memory is short, is read. One that also looks otherwise is not: it may be what is beneath a mount.
func TestRenumberedDirectory(t *testing.T) {
	for name, later := range map[string]time.Duration{"same": 0, "other": time.Second} {
		t.Run(name, func(t *testing.T) {
			var dir string
			at := time.Now().Add(-time.Hour)
			b := newTreeBench(t, sftptest.Script{
				Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Type == wire.TypeMkdir && r.Path == "/copy/dir" {
						if err := errors.Join(os.Rename(dir, dir+"-away"), os.Mkdir(dir, 0o755),
							os.Rename(dir+"-away/file", dir+"/file"),
							os.Chtimes(dir, at, at.Add(later))); err != nil {
							t.Error(err)
						}
					}
					return nil
				}}, sftptest.LinkConfig{})
			dir = filepath.Join(b.dir, "tree/dir")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			b.local("tree/dir/file", []byte("data"))
			if err := os.Chtimes(dir, at, at); err != nil {
				t.Fatal(err)
			}
			_, err := b.tree(upload, filepath.Join(b.dir, "tree"), "/copy", func(*treeJob) {})
			data, _ := b.server.Files.ReadFile("/copy/dir/file")
			if same := later == 0; same != (err == nil && string(data) == "data") ||
				!same && !errors.Is(err, transfer.ErrSourceChanged) {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
}

// TestSourceDirectoryReplacedAfterListing: between listing and reading a file or a link, another user
// puts a link in the place of its directory, or of one above that. What is in the directory to which
// it leads is not read.
func TestSourceDirectoryReplacedAfterListing(t *testing.T) {
	for kind, create := range map[string]func(text, name string) error{
		"small file": func(text, name string) error { return os.WriteFile(name, []byte(text), 0o600) },
		"large file": func(text, name string) error {
			return os.WriteFile(name, bytes.Repeat([]byte(text), 1<<18), 0o600)
		},
		"link": os.Symlink,
	} {
		for replaced, failed := range map[string]int64{".": 2, "above": 1, "above/dir": 1} {
			t.Run(kind+" in "+replaced, func(t *testing.T) {
				listing, reading := new(sftptest.Gate), new(sftptest.Gate)
				b := newTreeBench(t, sftptest.Script{
					Faults: []sftptest.Fault{
						{On: wire.TypeMkdir, Path: "/copy/above/dir", Do: sftptest.Hold(listing)},
						{On: wire.TypeOpen, Do: sftptest.Hold(reading)},
					},
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Type == wire.TypeOpen { // of the only file that may be in progress
							listing.Open()
						}
						if r.Path2 == "secret" {
							t.Errorf("a link that was not to be read is sent: %v", r)
						}
						return nil
					},
				}, sftptest.LinkConfig{})
				for _, root := range []string{"public", "secret"} {
					if err := os.MkdirAll(filepath.Join(b.dir, root, "above/dir"), 0o755); err != nil {
						t.Fatal(err)
					}
					b.local(filepath.Join(root, "first"), nil)
					if err := create(root, filepath.Join(b.dir, root, "above/dir/name")); err != nil {
						t.Fatal(err)
					}
				}
				tree, swapped := filepath.Join(b.dir, "public"), false
				s, err := b.tree(upload, tree, "/copy", func(job *treeJob) {
					job.TreeOptions.MaxFiles = 1
					job.Options.Events = func(e transfer.Event) {
						if e.Totals != nil && e.Totals.Complete && !swapped {
							swapped = true
							swapForLink(t, filepath.Join(tree, replaced), filepath.Join(b.dir, "aside"),
								filepath.Join(b.dir, "secret", replaced))
							reading.Open()
						}
					}
				})
				if !swapped || !errors.Is(err, transfer.ErrSourceChanged) || s.Failed != failed ||
					strings.Contains(err.Error(), "Changing") { // which does not help
					t.Errorf("swapped %v: %+v, %v", swapped, s.Totals, err)
				}
				for _, name := range b.server.Files.List() {
					if data, _ := b.server.Files.ReadFile(name); bytes.Contains(data, []byte("secret")) {
						t.Errorf("%s holds what was not to be read", name)
					}
				}
				if left := b.temporaries(); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
			})
		}
	}
}

// pipeForFile puts a pipe in the place of a tree's file.
func pipeForFile(tree, _ string) error {
	file := filepath.Join(tree, "file")
	return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600))
}

// TestJournalOfAnother: a journal that another user may write to leads to no file but its own:
// links in it are not followed, and files of others are not trusted.
func TestJournalOfAnother(t *testing.T) {
	for _, direction := range []way{upload, download} {
		// The names of the journal's files are found out at each request, since the large file's
		// mark may come and go between two events.
		var lock sync.Mutex
		var journal string
		seen, looking := make(map[string]bool), true
		b := newTreeBench(t, sftptest.Script{Intercept: func(sftptest.Request) []sftptest.Action {
			lock.Lock()
			defer lock.Unlock()
			if looking && journal != "" {
				names, _ := filepath.Glob(filepath.Join(journal, "*"))
				for _, name := range names {
					seen[name] = true
				}
			}
			return nil
		}}, sftptest.LinkConfig{})
		data := random(9 << 20)
		b.server.Files.WriteFile("/source/big", data)
		os.Mkdir(filepath.Join(b.dir, "source"), 0o755)
		b.local("source/big", data)
		precious := b.local("precious", []byte("precious"))
		lock.Lock()
		journal = filepath.Join(b.dir, "journal")
		lock.Unlock()
		run := func(source, target string) {
			tree := treeJob{Host: b.host, Direction: direction, Source: source,
				Target: target}
			tree.Options.Journal, tree.Options.Resume = journal, true
			if _, err := tree.Run(t.Context()); err != nil {
				t.Error(err)
			}
		}
		from, to := filepath.Join(b.dir, "source"), "/target"
		if direction == download {
			from, to = "/source", filepath.Join(b.dir, "target")
		}
		run(from, to)
		lock.Lock()
		looking = false
		lock.Unlock()
		if len(seen) != 3 {
			t.Fatalf("the journal had %d files, not those of a tree, of its run, and of a large file",
				len(seen))
		}
		os.RemoveAll(filepath.Join(b.dir, "target"))
		b.server.Files.Remove("/target/big")
		for name := range seen {
			os.Remove(name) // the tree's own mark remains, and says that it is complete
			if err := os.Symlink(precious, name); err != nil {
				t.Fatal(err)
			}
		}
		run(from, to)
		if got, _ := os.ReadFile(precious); string(got) != "precious" {
			t.Errorf("%v: %.60q was written through the link", direction, got)
		}
	}
}
