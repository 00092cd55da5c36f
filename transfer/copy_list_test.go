package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// A file that differs from the list fails before it gets its name; listed files that were not
// copied are missing.
func TestCopyAgainstList(t *testing.T) {
	b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	source := b.sample("source")
	path := filepath.Join(b.dir, "list")
	m, err := checksum.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.tree(upload, source, "/good", func(tree *treeJob) {
		tree.Options.Hash = checksum.SHA256
		tree.Options.Events = func(e transfer.Event) {
			if !e.Hash.IsZero() {
				m.Add(e.Name, e.Hash)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(); err != nil || m.Added() != 9 {
		t.Fatalf("%d files, %v", m.Added(), err)
	}
	for _, direction := range []way{upload, download} {
		list, err := checksum.Open(path, checksum.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Close()
		from, to := source, "/checked"
		if direction == download {
			from, to = "/good", filepath.Join(b.dir, "checked")
		}
		against := func(tree *treeJob) { tree.Options.List = list }
		if s, err := b.tree(direction, from, to, against); err != nil || s.Files != 9 {
			t.Errorf("%v: %+v, %v", direction, s, err)
		}
		if missing := missingFrom(t, list); len(missing) > 0 {
			t.Errorf("%v: missing: %q", direction, missing)
		}
		if list.Len() != 9 {
			t.Errorf("%d lines", list.Len())
		}
	}
	// One small and one large file have changed, one is gone and one is new.
	for _, name := range []string{"deep/er/small", "deep/er/and/large"} {
		data := b.remote("/good/" + name)
		data[0]++
		b.server.Files.WriteFile("/good/"+name, data)
	}
	b.server.Files.Remove("/good/one")
	b.server.Files.WriteFile("/good/new", []byte("new"))
	list, err := checksum.Open(path, checksum.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	s, err := b.tree(download, "/good", filepath.Join(b.dir, "differs"),
		func(tree *treeJob) { tree.Options.List = list })
	if !errors.Is(err, checksum.ErrMismatch) || s.Failed != 2 || s.Files != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if got := b.kinds(transfer.Failed, "/good"); !slices.Equal(got,
		[]string{"deep/er/and/large", "deep/er/small"}) {
		t.Errorf("failed: %q", got)
	}
	if missing := missingFrom(t, list); !slices.Equal(missing, []string{"one"}) {
		t.Errorf("missing: %q", missing)
	}
	if notes := b.notes(); !slices.Contains(notes, "not in the list of hashes") {
		t.Errorf("the notes are %q", notes)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "differs/deep/er/small")); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("what differs has its name: %v", err)
	}
	if _, err := b.job(download, "/good/deep/er/small", filepath.Join(b.dir, "deep"),
		func(j *copyJob) { j.Options.List = list }); err != nil {
		t.Errorf("a list that has another name only: %v", err)
	}
}

// writeList writes a list of files that contain their own names.
func writeList(t *testing.T, path string, a checksum.Algorithm, names ...string) {
	t.Helper()
	var lines []byte
	for _, name := range names {
		lines = fmt.Appendf(lines, "%x  %s\n", hashOf(a, []byte(name)).Sum, name)
	}
	if err := os.WriteFile(path, lines, 0o644); err != nil {
		t.Fatal(err)
	}
}

func missingFrom(t *testing.T, list *checksum.List) (names []string) {
	t.Helper()
	for name, err := range list.Missing() {
		if err != nil {
			t.Error(err)
		}
		names = append(names, name)
	}
	return names
}
