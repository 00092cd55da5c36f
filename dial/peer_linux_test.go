package dial

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestMasterOfSomebodyElse: a socket that looks like ours, behind which another user's process
// listens, is not used.
func TestMasterOfSomebodyElse(t *testing.T) {
	for _, uid := range []int{os.Getuid(), 65534} {
		if uid != os.Getuid() && os.Getuid() != 0 {
			t.Log("only root can listen as somebody else")
			continue
		}
		path := filepath.Join(t.TempDir(), "master")
		listen := make(chan net.Listener)
		go func() {
			// Credentials are those of this thread, which ends with the goroutine.
			runtime.LockOSThread()
			os.Chmod(filepath.Dir(path), 0o777)
			os.Chmod(filepath.Dir(filepath.Dir(path)), 0o755)
			syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Error(err)
			}
			listen <- l
		}()
		l := <-listen
		if l == nil {
			return
		}
		defer l.Close()
		os.Chown(path, os.Getuid(), -1)
		heard := make(chan int, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			n, _ := c.Read(make([]byte, 100))
			heard <- n
		}()
		d := &Dialer{s: &settings{}}
		_, err := d.dialMaster(t.Context(), path, true)
		stranger := err != nil && strings.Contains(err.Error(), "somebody else")
		if stranger != (uid != os.Getuid()) {
			t.Errorf("user %d: %v", uid, err)
		}
		if n := <-heard; stranger && n > 0 {
			t.Error("something was said to a stranger")
		}
	}
}
