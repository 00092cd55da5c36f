package endpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// What gets another name follows no link on the way to it, even if that stays below the root.
func TestLocalRenameFollowsNoLink(t *testing.T) {
	for what, give := range map[string]func(Root, string, string) error{"Rename": Root.Rename,
		"Link": Root.Link} {
		dir := t.TempDir()
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "other"), 0o755),
			os.WriteFile(filepath.Join(dir, "file"), nil, 0o644),
			os.Symlink("other", filepath.Join(dir, "kept"))); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "kept")); err != nil {
			testenv.Unavailable(t, "links: Wine says that it has made one, and has not")
		}
		root, err := Local{}.Below(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := give(root, "file", "kept/file"); !errors.Is(err, ErrLinkInWay) {
			t.Errorf("%s: %v", what, err)
		}
		if left, err := os.ReadDir(filepath.Join(dir, "other")); err != nil || len(left) > 0 {
			t.Errorf("%s: where the link leads there are %v, %v", what, left, err)
		}
		if err := give(root, "file", "other/file"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Of many files that are to get one name at the same moment one gets it, and none is lost.
func TestLocalRenameReplacesNothing(t *testing.T) {
	const rounds, files = 200, 4
	dir := t.TempDir()
	root, err := Local{}.Below(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for round := range rounds {
		in := filepath.Join(dir, strconv.Itoa(round))
		if err := os.Mkdir(in, 0o755); err != nil {
			t.Fatal(err)
		}
		start := make(chan struct{})
		errs := make([]error, files)
		var renaming sync.WaitGroup
		for n := range files {
			name := strconv.Itoa(n)
			if err := os.WriteFile(filepath.Join(in, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			renaming.Go(func() {
				<-start
				errs[n] = root.Rename(strconv.Itoa(round)+"/"+name, strconv.Itoa(round)+"/new")
			})
		}
		close(start)
		renaming.Wait()
		renamed := 0
		for _, err := range errs {
			switch {
			case err == nil:
				renamed++
			case !errors.Is(err, fs.ErrExist):
				t.Fatal(err)
			}
		}
		if left, err := os.ReadDir(in); err != nil || len(left) != files || renamed != 1 {
			t.Fatalf("round %d: %d were renamed, %d files are left, %v", round, renamed, len(left), err)
		}
	}
}
