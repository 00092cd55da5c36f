package transfer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/samename"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// Of two names that are one on a host, the second is refused with an error that names both, and
// replaces nothing. Where they are two, both arrive.
func TestTwoNamesThatAreOne(t *testing.T) {
	folds := map[string]func(string) string{
		"nothing": func(name string) string { return name },
		"case":    samename.Fold,
		"letters": norm.NFD.String,
		"bytes":   func(name string) string { return strings.ToValidUTF8(name, "\ufffd") },
		"both":    func(name string) string { return norm.NFD.String(samename.Fold(name)) },
	}
	composed, decomposed := norm.NFC.String("käse"), norm.NFD.String("käse")
	upper := norm.NFC.String("KÄSE")
	for name, twins := range map[string]struct {
		names [2]string
		ones  string // where they are one
	}{
		"case":        {[2]string{"photo", "Photo"}, "case both"},
		"letters":     {[2]string{composed, decomposed}, "letters both"},
		"both":        {[2]string{upper, decomposed}, "both"},
		"cased":       {[2]string{composed, upper}, "case both"},
		"bytes":       {[2]string{"k\xe4se", "k\xf6se"}, "bytes"},
		"directories": {[2]string{"dir/deep/file", "dir/Deep/file"}, "case both"},
	} {
		for fold, f := range folds {
			for _, verb := range []string{"cp", "sync", "sync without a lock"} {
				t.Run(fmt.Sprint(name, " on a host that folds ", fold, ", ", verb), func(t *testing.T) {
					files := foldFS{memfs.New(0), f}
					host, _ := deltaHostOf(t, files, nil)
					src := t.TempDir()
					fill(t, src, twins.names[0], twins.names[1], "other")
					first, err := os.Stat(filepath.Join(src, twins.names[0]))
					if err != nil {
						t.Fatal(err)
					}
					second, err := os.Stat(filepath.Join(src, twins.names[1]))
					if err != nil {
						t.Fatal(err)
					}
					if os.SameFile(first, second) {
						return // this system takes them for one, too
					}
					var failed []string
					o := transfer.Options{Events: func(e transfer.Event) {
						if e.Kind == transfer.Failed {
							failed = append(failed, e.Err.Error())
						}
					}}
					for range 2 { // the second time both sides exist
						failed = nil
						if verb == "cp" {
							o.NoTargetDirectory = true
							_, err = uploadTree(t.Context(), host, src, "/dst", o)
						} else {
							_, err = transfer.Sync(t.Context(), transfer.Remote(host, "/dst"),
								transfer.Local(src), transfer.SyncOptions{Delete: true,
									NoLock:      verb != "sync",
									TreeOptions: transfer.TreeOptions{Options: o}})
						}
					}
					arrived := 0
					for _, twin := range twins.names {
						want := filepath.Join(src, twin)
						if got := textOf(t, host.Client, "/dst/"+f(twin)); got == want {
							arrived++
						}
					}
					for _, left := range namesOn(t, host.Client, "/dst") {
						if localfs.IsTempName(left) {
							t.Errorf("%s is left", left)
						}
					}
					if !strings.Contains(twins.ones, fold) {
						if err != nil || arrived != 2 {
							t.Errorf("%d of the two arrived: %v", arrived, err)
						}
						return
					}
					if !errors.Is(err, fs.ErrExist) || arrived != 1 || len(failed) != 1 ||
						!strings.Contains(failed[0], "the target takes its name for \"") {
						t.Errorf("%d of the two arrived: %v, %q", arrived, err, failed)
					}
				})
			}
		}
	}
}

// A second sync to a host that spells names in its own way copies nothing.
func TestSyncAgainWhereNamesAreSpeltInAnotherWay(t *testing.T) {
	host, _ := deltaHostOf(t, foldFS{memfs.New(0), norm.NFD.String}, nil)
	src := t.TempDir()
	fill(t, src, norm.NFC.String("Käse/Brötchen"), "plain")
	for run, files := range []int64{2, 0} {
		s, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{Delete: true})
		if err != nil || s.Files != files || s.Deleted > 0 {
			t.Errorf("run %d: %+v, %v", run, s.Totals, err)
		}
	}
}

func textOf(t *testing.T, c *usftp.Client, name string) string {
	t.Helper()
	data, err := c.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

func namesOn(t *testing.T, c *usftp.Client, dir string) (names []string) {
	t.Helper()
	for e, err := range c.Walk(dir) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, path.Base(e.Name()))
	}
	return names
}

// A name that is no UTF-8 has another spelling on a host that decodes it. A warning says so, and
// sync does not delete the file that it has just copied.
func TestSyncKeepsWhatTheHostDecoded(t *testing.T) {
	decode := func(name string) string { return strings.ToValidUTF8(name, "\ufffd") }
	host, _ := deltaHostOf(t, foldFS{memfs.New(0), decode}, nil)
	src := t.TempDir()
	fill(t, src, "plain")
	name := filepath.Join(src, "k\xe4se")
	if os.WriteFile(name, []byte("data"), 0o644) != nil || !slices.Contains(filesIn(src), "k\xe4se") {
		return // this system has no such names
	}
	warnings := 0
	o := transfer.Options{Events: func(e transfer.Event) {
		if e.Kind == transfer.Warning && strings.Contains(e.Message, "not UTF-8 in names") {
			warnings++
		}
	}}
	for range 2 {
		_, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{Delete: true, TreeOptions: transfer.TreeOptions{Options: o}})
		if got := textOf(t, host.Client, "/dst/k\ufffdse"); got != "data" || err != nil {
			t.Errorf("the file has %q: %v", got, err)
		}
	}
	if warnings != 2 { // one in each run
		t.Errorf("%d warnings of the name", warnings)
	}
	// Runs that share what is known of the host warn once, but a dry run cannot know.
	host.Quirks, warnings = new(pool.Quirks), 0
	for _, dryRun := range []bool{true, false, false} {
		if _, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{TreeOptions: transfer.TreeOptions{DryRun: dryRun, Options: o}}); err != nil {
			t.Error(err)
		}
	}
	if warnings != 1 {
		t.Errorf("%d warnings of the name after a dry run", warnings)
	}
}
