package transfer_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// mountVariable names the directory on which this binary, run again in its own mount namespace,
// mounts a file system with room for two files.
const mountVariable = "USFTP_TEST_MOUNT"

// TestFullFileSystemKeepsTheTarget: if there is no room for a temporary file, the target is not
// written in place, which would overwrite some of it and then fail for the same reason.
func TestFullFileSystemKeepsTheTarget(t *testing.T) {
	if dir := os.Getenv(mountVariable); dir != "" {
		fullFileSystem(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), mountVariable+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(),
			Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit) && os.Getenv("USFTP_REQUIRE") != "1":
		t.Skipf("no mount namespace can be had here: %v", err)
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case !bytes.Contains(out, []byte("--- PASS: "+t.Name())):
		t.Fatalf("the test has not run there:\n%s", out)
	}
}

func fullFileSystem(t *testing.T, dir string) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	// one inode is the root directory's
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,nr_inodes=3"); err != nil {
		t.Fatal(err)
	}
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
