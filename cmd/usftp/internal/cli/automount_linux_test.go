package cli

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
)

// automount mounts a file system on a directory that mounts source there as soon as a process
// enters it, as autofs and systemd's automount units do. The test itself does not make it do so.
func automount(t *testing.T, dir, source string) {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Unavailable(t, "root, who may mount")
	}
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { r.Close() })
	err = unix.Mount("test", dir, "autofs", 0, fmt.Sprintf(
		"fd=%d,pgrp=%d,minproto=5,maxproto=5,direct", w.Fd(), syscall.Getpgrp()))
	w.Close()
	if err != nil {
		testenv.Unavailable(t, "autofs: "+err.Error())
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	trigger, err := os.Open(dir)
	must(t, err)
	t.Cleanup(func() { trigger.Close() })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		packet := make([]byte, 304) // struct autofs_v5_packet
		if _, err := r.Read(packet); err != nil {
			return // nobody enters it any more
		}
		done := uint(0x9360) // AUTOFS_IOC_READY
		if err := unix.Mount(source, dir, "", unix.MS_BIND, ""); err != nil {
			t.Error(err)
			done = 0x9361 // AUTOFS_IOC_FAIL
		}
		unix.IoctlSetInt(int(trigger.Fd()), done, int(binary.NativeEndian.Uint32(packet[8:])))
	}()
	t.Cleanup(func() {
		r.Close()
		<-ended
		unix.Unmount(dir, unix.MNT_DETACH)
	})
}

// TestSourceThatIsMountedOnDemand: a directory that is mounted as soon as it is entered has not
// been replaced by another.
func TestSourceThatIsMountedOnDemand(t *testing.T) {
	for _, verb := range [][]string{{"cp", "-r"}, {"sync"}} {
		dir := t.TempDir()
		source, at := filepath.Join(dir, "source"), filepath.Join(dir, "at")
		must(t, os.Mkdir(source, 0o755))
		must(t, os.Mkdir(at, 0o755))
		writeFile(t, filepath.Join(source, "file"), []byte("text"))
		must(t, os.Symlink("file", filepath.Join(source, "link")))
		automount(t, at, source)
		got := run(t, dir, append(verb, "at", "to")...) // in a process group of its own
		text, err := os.ReadFile(filepath.Join(dir, "to/file"))
		if got.code != 0 || string(text) != "text" {
			t.Errorf("%q: %+v, and the file has %q, %v", verb, got, text, err)
		}
		if to, err := os.Readlink(filepath.Join(dir, "to/link")); to != "file" {
			t.Errorf("%q: the link leads to %q, %v", verb, to, err)
		}
	}
}
