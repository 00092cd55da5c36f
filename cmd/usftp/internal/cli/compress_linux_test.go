package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// On a link that is fast -C costs more than it saves, which is said in one line at the end. On a
// link that is slow it is not.
func TestCompressionAdvice(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{Config: []string{"Compression yes"}})
	dir := t.TempDir()
	var text strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	for text.Len() < 48<<20 {
		fmt.Fprintf(&text, "2026-11-26T10:%02d:%02d host-%d sshd[%d]: Accepted publickey for user%d from 10.0.%d.%d\n",
			rng.IntN(60), rng.IntN(60), rng.IntN(40), rng.IntN(30_000), rng.IntN(500),
			rng.IntN(256), rng.IntN(256))
	}
	writeFile(t, filepath.Join(dir, "log"), []byte(text.String()))
	writeFile(t, filepath.Join(dir, "short"), []byte(text.String()[:6<<20]))
	slow := slowly(t, sshd.Addr(), 64<<10)
	for _, test := range []struct {
		flags, source, says string
	}{
		{"-C", "log", "it is faster not to compress here\n"},
		{"-q -C", "log", ""},
		{"", "log", ""},
		{fmt.Sprintf("-C -P %d -o HostKeyAlias=[%s]:%d", slow, sshd.Host, sshd.Port), "short", ""},
	} {
		args := append([]string{"cp", "-F", sshd.ConfigFile}, strings.Fields(test.flags)...)
		args = append(args, test.source, sshd.Alias+":"+filepath.Join(sshd.Dir, "copy"))
		began := time.Now()
		out, starved := runBesideOthers(t, dir, args...)
		// What others take from usftp's compression shows nothing about the link.
		for test.says != "" && out.stderr == "" && starved && time.Since(began) < time.Minute {
			out, starved = runBesideOthers(t, dir, args...)
		}
		if test.says != "" && out.stderr == "" && out.code == 0 && starved {
			t.Log("the machine was too busy for a fast link to be seen")
			continue
		}
		if out.code != 0 || (out.stderr == "") != (test.says == "") ||
			!strings.HasSuffix(out.stderr, test.says) || strings.Count(out.stderr, "\n") > 1 {
			t.Errorf("%q %s: exit %d, %s", test.flags, test.source, out.code, out.stderr)
		}
	}
}

// runBesideOthers runs usftp, and reports whether it was starved: it works all the time, so without
// a processor of its own it has had to wait for one.
func runBesideOthers(t *testing.T, dir string, args ...string) (_ outcome, starved bool) {
	t.Helper()
	cmd, began := command(t, dir, args...), time.Now()
	out := finish(t, cmd)
	busy := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return out, busy < time.Since(began)*9/10
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
