package transfer_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// delayed is a proxy that accepts connections at once, and forwards each byte after a delay. It
// counts its connections.
func delayed(t *testing.T, target string, delay time.Duration) (port int, count *atomic.Int64) {
	t.Helper()
	type piece struct {
		due  time.Time
		data []byte
	}
	carry := func(to, from net.Conn) {
		pieces := make(chan piece, 4096)
		go func() {
			defer close(pieces)
			for {
				buf := make([]byte, 64<<10)
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				pieces <- piece{time.Now().Add(delay), buf[:n]}
			}
		}()
		for p := range pieces {
			time.Sleep(time.Until(p.due)) // simulates the link
			if _, err := to.Write(p.data); err != nil {
				break
			}
		}
		to.Close()
		from.Close()
		for range pieces {
		}
	}
	count = new(atomic.Int64)
	return testenv.Listen(t, func(client net.Conn) {
		server, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		count.Add(1)
		go carry(client, server)
		carry(server, client)
	}).Port, count
}

// A proxy near us may answer TCP's handshake although the host is far away: that is noticed, and
// more connections are opened.
func TestLongWayBehindAProxy(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	port, connections := delayed(t, sshd.Addr(), 40*time.Millisecond)
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	if err := os.WriteFile(source, random(64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	login, err := pool.Connect(t.Context(), dial.Target{Host: sshd.Alias},
		pool.ConnectConfig{Look: target,
			Dial: &dial.Config{ConfigFile: sshd.ConfigFile,
				Options: []string{"Port=" + strconv.Itoa(port),
					"HostKeyAlias=[" + sshd.Host + "]:" + strconv.Itoa(sshd.Port)}}})
	if err != nil {
		t.Fatal(err)
	}
	defer login.Close()
	// On a machine so busy that no ping returns within a second, it is tried again.
	for tries := 1; connections.Load() < 2; tries++ {
		r, err := uploadFile(t.Context(), login.Host(), source, target, transfer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, source, target)
		if tries == 5 && connections.Load() < 2 {
			t.Fatalf("%+v over one connection", r)
		}
	}
}

// same compares two files.
func same(t *testing.T, a, b string) {
	t.Helper()
	var files [2]*os.File
	for i, name := range []string{a, b} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	for {
		var bufs [2][64 << 10]byte
		n, err := io.ReadFull(files[0], bufs[0][:])
		m, _ := io.ReadFull(files[1], bufs[1][:])
		if n != m || bufs[0] != bufs[1] {
			t.Fatalf("%s differs from %s", b, a)
		}
		if err != nil {
			return
		}
	}
}
