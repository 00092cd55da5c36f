package cli

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/flate"
	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// That -C took time for nothing is said in one line at the end. On a link that is slow, where it
// pays, nothing is said. Package dial tests what is measured of a fast link: here others may have
// the processor that compresses.
func TestCompressionAdvice(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{"Compression yes"}})
	dir := t.TempDir()
	noise := make([]byte, 1<<20) // is not repeated within zlib's window
	rand.NewChaCha8([32]byte{}).Read(noise)
	writeFile(t, filepath.Join(dir, "packed"), bytes.Repeat(noise, secondOfCompressing(t, noise)*5/2))
	var text strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	for text.Len() < 6<<20 {
		fmt.Fprintf(&text, "2026-11-26T10:%02d:%02d host-%d sshd[%d]: Accepted publickey for user%d from 10.0.%d.%d\n",
			rng.IntN(60), rng.IntN(60), rng.IntN(40), rng.IntN(30_000), rng.IntN(500),
			rng.IntN(256), rng.IntN(256))
	}
	writeFile(t, filepath.Join(dir, "log"), []byte(text.String()))
	check := func(flags, source, says string) {
		args := append([]string{"cp", "-F", sshd.ConfigFile}, strings.Fields(flags)...)
		out := run(t, dir, append(args, source, sshd.Alias+":"+filepath.Join(sshd.Dir, source))...)
		if out.code != 0 || (out.stderr == "") != (says == "") ||
			!strings.HasSuffix(out.stderr, says) || strings.Count(out.stderr, "\n") > 1 {
			t.Errorf("%q %s: exit %d, %s", flags, source, out.code, out.stderr)
		}
	}
	slow := fmt.Sprintf("-C -P %d -o HostKeyAlias=[%s]:%d", slowly(t, sshd.Addr(), 64<<10), sshd.Host,
		sshd.Port)
	var beside sync.WaitGroup // the others, as it waits for the link
	defer beside.Wait()
	beside.Go(func() { check(slow, "log", "") })
	check("-C", "packed", " it hardly smaller: it is better not to compress this\n")
	check("-q -C", "packed", "")
	check("", "packed", "")
}

// secondOfCompressing returns how often data can be compressed in a second, as usftp does: advice is
// for what takes longer, and the race detector makes it take twenty times as long.
func secondOfCompressing(t *testing.T, data []byte) int {
	t.Helper()
	w, err := flate.NewWriter(io.Discard, 7)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration { // by this thread: others may have the processor for a while
		var used unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &used); err != nil {
			t.Fatal(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	shortest := time.Minute
	for range 5 {
		before := spent()
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		shortest = min(shortest, spent()-before)
	}
	return int(time.Second/max(shortest, time.Millisecond)) + 1
}

// slowly forwards connections to a target, what is sent at most at a rate in bytes per second.
func slowly(t *testing.T, target string, rate int) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Where others take the processor from usftp, it sends hardly faster than the link carries, and
	// a larger buffer would take nearly all of it at once.
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	testenv.Accept(t, l, func(from net.Conn) {
		to, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		go func() {
			io.Copy(from, to)
			from.Close()
		}()
		defer to.Close()
		piece, free := make([]byte, 16<<10), time.Now()
		for {
			n, err := from.Read(piece)
			if _, writeErr := to.Write(piece[:n]); err != nil || writeErr != nil {
				return
			}
			free = free.Add(time.Duration(n) * time.Second / time.Duration(rate))
			time.Sleep(time.Until(free)) // simulates the link
		}
	})
	return l.Addr().(*net.TCPAddr).Port
}
