package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	sharedMemory = "/dev/shm"
	leastRoom    = 4 << 30
)

// InMemory runs a package's tests with their temporary files in memory, if there is room and
// neither TMPDIR nor GOTMPDIR, which [testing.T.TempDir] obeys, is set: on many disks, tests that
// make and remove small files spend most of their time there. A test that needs a disk asks for
// [OnDisk].
func InMemory(m interface{ Run() int }) int {
	if os.Getenv("TMPDIR") != "" || os.Getenv("GOTMPDIR") != "" || !roomInMemory() {
		return m.Run()
	}
	dir, remove, err := makeInMemory()
	if err != nil {
		fmt.Fprintln(os.Stderr, "the tests' files go to the disk, not to memory:", err)
		return m.Run()
	}
	defer remove()
	disk = os.TempDir()
	os.Setenv("TMPDIR", dir)
	return m.Run()
}

func roomInMemory() bool {
	var st unix.Statfs_t
	if unix.Statfs(sharedMemory, &st) != nil || st.Type != unix.TMPFS_MAGIC ||
		st.Flags&unix.MS_NOEXEC != 0 || st.Bavail*uint64(st.Bsize) < leastRoom {
		return false
	}
	// a tmpfs may have more room than the machine has
	said, _ := os.ReadFile("/proc/meminfo")
	_, said, _ = bytes.Cut(said, []byte("MemAvailable:"))
	said, _, _ = bytes.Cut(said, []byte(" kB"))
	available, _ := strconv.Atoi(string(bytes.TrimSpace(said)))
	return available >= leastRoom>>10
}

// makeInMemory makes a directory, with a name as short as sockets need. A shell removes it when
// this process ends, in any way; remove has it do that now.
func makeInMemory() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp(sharedMemory, "u")
	if err == nil {
		err = os.Chmod(dir, 0o777|os.ModeSticky) // as /tmp: some programs run as other users
	}
	if err != nil {
		return "", nil, err
	}
	shell := exec.Command("sh", "-c", `read _; exec rm -rf "$0"`, dir)
	shell.Stderr = os.Stderr
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C does not reach it
	until, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	if err != nil {
		os.Remove(dir)
		return "", nil, err
	}
	return dir, func() { until.Close(); shell.Wait() }, nil
}
