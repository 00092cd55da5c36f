package transfer_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// exFAT mounts a disk with the file system of memory cards and returns it. FUSE gives a file
// another inode there for each spelling of its name, so that nothing shows that two are one.
func exFAT(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"mkfs.exfat", "mount.exfat-fuse"} {
		testenv.Program(t, program)
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.exfat", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-t", "exfat-fuse", "-o", "loop", image,
		dir).CombinedOutput(); err != nil {
		testenv.Unavailable(t, string(out)) // only root may
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir
}

// TestADiskThatIgnoresCase: on a disk of this machine, two names that are one never become one
// file, and what was renamed only in case is not deleted.
func TestADiskThatIgnoresCase(t *testing.T) {
	disk := exFAT(t)
	host, _ := deltaHostOf(t, memfs.New(0), nil)
	if err := errors.Join(host.Client.Mkdir("/src"), host.Client.Mkdir("/src/dir"),
		host.Client.Mkdir("/src/DIR")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"photo", "Photo", "other", "dir/file", "DIR/file"} {
		putText(host.Client, "/src/"+name, name)
	}
	for verb, run := range map[string]func(dst string) error{
		"cp": func(dst string) error {
			var o transfer.TreeOptions
			o.NoTargetDirectory = true
			_, err := transfer.CopyTree(t.Context(), transfer.Local(dst), transfer.Remote(host, "/src"), o)
			return err
		},
		"sync": func(dst string) error {
			_, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(host, "/src"),
				transfer.SyncOptions{Delete: true})
			return err
		},
		"sync without a lock": func(dst string) error {
			_, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(host, "/src"),
				transfer.SyncOptions{Delete: true, NoLock: true})
			return err
		},
	} {
		dst := filepath.Join(disk, verb)
		for range 2 {
			if err := run(dst); !errors.Is(err, fs.ErrExist) ||
				!strings.Contains(err.Error(), "the target takes its name for \"") {
				t.Errorf("%s: %v", verb, err)
			}
			have := filesIn(dst)
			if len(have) != 4 {
				t.Errorf("%s: there are %q", verb, have)
			}
			for _, name := range have {
				text, err := os.ReadFile(filepath.Join(dst, name))
				if !strings.EqualFold(name, "dir") && string(text) != name {
					t.Errorf("%s: %s is %q, %v", verb, name, text, err)
				}
			}
		}
	}

	for _, noLock := range []bool{false, true} {
		options := transfer.SyncOptions{Delete: true, NoLock: noLock}
		src, dst := t.TempDir(), filepath.Join(disk, "renamed")
		fill(t, src, "Readme", "gone")
		sync := func() {
			t.Helper()
			if _, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Local(src),
				options); err != nil {
				t.Fatal(err)
			}
		}
		sync()
		if err := errors.Join(os.Rename(filepath.Join(src, "Readme"), filepath.Join(src, "README")),
			os.Remove(filepath.Join(src, "gone"))); err != nil {
			t.Fatal(err)
		}
		sync()
		if have := filesIn(dst); !slices.Equal(have, []string{"Readme"}) &&
			!slices.Equal(have, []string{"README"}) {
			t.Errorf("without a lock %v: there are %q", noLock, have)
		}
	}
}
