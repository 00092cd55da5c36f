package transfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestFullFileSystemKeepsTheTarget: if there is no room for a temporary file, the target is not
// written in place, which would overwrite some of it and then fail for the same reason.
func TestFullFileSystemKeepsTheTarget(t *testing.T) {
	// one inode is the root directory's
	testenv.Mounted(t, "size=64k,nr_inodes=3", fullFileSystem)
}

func fullFileSystem(t *testing.T, dir string) {
	for _, name := range []string{"big", "small"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	tree := filepath.Join(b.dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	b.server.Files.Mkdir("/tree")
	for name, size := range map[string]int{"big": 200e3, "small": 10} {
		b.local("tree/"+name, random(size))
		b.server.Files.WriteFile("/tree/"+name, random(size))
	}
	target := filepath.Join(dir, "big")
	for name, copies := range map[string]func() error{
		"local file": func() error {
			_, err := b.job(local, filepath.Join(tree, "big"), target)
			return err
		},
		"download": func() error {
			_, err := b.job(download, "/tree/big", target)
			return err
		},
		"local tree": func() error {
			tree := treeJob{Direction: local, Source: tree + "/.", Target: dir}
			_, err := tree.Run(t.Context())
			return err
		},
		"downloaded tree": func() error {
			_, err := downloadTree(t.Context(), b.host, "/tree/.", dir, transfer.Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := copies()
			if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "--inplace") {
				t.Errorf("the error is %v", err)
			}
			for _, name := range []string{"big", "small"} {
				if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != "old" {
					t.Errorf("%s holds %d other bytes, %v", name, len(got), err)
				}
			}
		})
	}
}
