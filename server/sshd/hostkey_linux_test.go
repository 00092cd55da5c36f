package sshd

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/internal/testenv"
)

// unlinked is a directory on a file system without hard links.
type unlinked struct{ fs.LoopbackNode }

func (*unlinked) Link(context.Context, fs.InodeEmbedder, string,
	*fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return nil, syscall.EPERM
}

// TestHostKeyWithoutHardLinks: a host key is also made in a home without hard links, as on FAT.
func TestHostKeyWithoutHardLinks(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root can mount")
	}
	at := t.TempDir()
	root := &unlinked{fs.LoopbackNode{RootData: &fs.LoopbackRoot{Path: t.TempDir()}}}
	root.RootData.RootNode = root
	mounted, err := fs.Mount(at, root,
		&fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		testenv.Unavailable(t, err)
	}
	defer mounted.Unmount()
	name := filepath.Join(at, "host_ed25519_key")
	made, err := LoadHostKeys(name)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadHostKeys(name)
	if err != nil || !bytes.Equal(made[0].PublicKey().Marshal(), again[0].PublicKey().Marshal()) {
		t.Errorf("the key is not the one that was made: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(at, ".hostkey-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
