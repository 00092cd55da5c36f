package transfer_test

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// TestSyncToAHostThatNormalizes: a host that stores names decomposed, whether it finds them in
// other spellings or not, keeps what the sync has copied. What the source really lacks is deleted.
func TestSyncToAHostThatNormalizes(t *testing.T) {
	composed, decomposed := norm.NFC.String("Käse.txt"), norm.NFD.String("Käse.txt")
	for _, noLock := range []bool{false, true} {
		for name, there := range map[string]string{"new": "", "there in the host's spelling": decomposed} {
			files := foldFS{memfs.New(0), norm.NFD.String}
			host, _ := deltaHostOf(t, files, nil)
			src := t.TempDir()
			fill(t, src, composed, "plain", "gone", "gän")
			if there != "" {
				if err := host.Client.Mkdir("/dst"); err != nil {
					t.Fatal(err)
				}
				putText(host.Client, "/dst/"+there, "old")
			}
			options := transfer.SyncOptions{Delete: true, NoLock: noLock}
			run := func(want ...string) {
				t.Helper()
				_, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"),
					transfer.Local(src), options)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var have []string
				for info, err := range files.List(t.Context(), "/dst") {
					if err != nil {
						t.Fatal(err)
					}
					if !info.IsDir() {
						have = append(have, norm.NFC.String(info.Name()))
					}
				}
				if slices.Sort(have); !slices.Equal(have, want) {
					t.Errorf("%s: the target has %q, want %q", name, have, want)
				}
			}
			run(composed, "gone", norm.NFC.String("gän"), "plain")
			for _, gone := range []string{"gone", "gän"} {
				if err := os.Remove(filepath.Join(src, gone)); err != nil {
					t.Fatal(err)
				}
			}
			run(composed, "plain")
			run(composed, "plain")
		}
	}
}

// A target that lists a name in two spellings keeps them apart, so the one that the source lacks is
// deleted.
func TestSyncDeletesAnotherSpelling(t *testing.T) {
	composed, decomposed := norm.NFC.String("Käse.txt"), norm.NFD.String("Käse.txt")
	for _, kept := range []string{composed, decomposed} {
		host, _ := deltaHostOf(t, memfs.New(0), nil)
		src := t.TempDir()
		fill(t, src, kept)
		if err := host.Client.Mkdir("/dst"); err != nil {
			t.Fatal(err)
		}
		putText(host.Client, "/dst/"+composed, "old")
		putText(host.Client, "/dst/"+decomposed, "old")
		s, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{Delete: true})
		if err != nil || s.Files != 1 || s.Deleted != 1 {
			t.Errorf("%+v, %v", s.Totals, err)
		}
		list, err := host.Client.ReadDir("/dst")
		if err != nil || len(list) != 1 || path.Base(list[0].Name()) != kept {
			t.Errorf("the target has %q, want %q; %v", path.Base(list[0].Name()), kept, err)
		}
	}
}

// What filters exclude is not deleted from a host that spells it in another way either.
func TestSyncKeepsExcludedSpellings(t *testing.T) {
	composed := norm.NFC.String("Käse.txt")
	for name, test := range map[string]struct {
		fold   func(string) string
		exists bool // in the source, too
		name   string
	}{
		"normalized":            {fold: norm.NFD.String, exists: true, name: composed},
		"normalized, elsewhere": {fold: norm.NFD.String, name: composed},
		"in lower case":         {fold: strings.ToLower, exists: true, name: "Secret"},
	} {
		for _, noLock := range []bool{false, true} {
			host, _ := deltaHostOf(t, foldFS{memfs.New(0), test.fold}, nil)
			src := t.TempDir()
			fill(t, src, "plain")
			if test.exists {
				fill(t, src, test.name)
			}
			if err := host.Client.Mkdir("/dst"); err != nil {
				t.Fatal(err)
			}
			for _, there := range []string{test.name, "extra"} {
				putText(host.Client, "/dst/"+there, "old")
			}
			options := transfer.SyncOptions{Delete: true, NoLock: noLock}
			options.Filter = rules(test.name)
			s, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src), options)
			if err != nil || s.Deleted != 1 {
				t.Errorf("%s: %+v, %v", name, s.Totals, err)
			}
			if _, err := host.Client.Lstat("/dst/" + test.fold(test.name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
