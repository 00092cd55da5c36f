//go:build unix

package daemon

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// startHAProxy runs HAProxy with a file of ours, in which those names are to be replaced, and
// returns its port.
func startHAProxy(t *testing.T, config, bind string, servers map[string]*servetest.Server) string {
	t.Helper()
	program := testenv.Program(t, "haproxy")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File() // inherited, so that nobody else can take the port
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	text := string(readFile(t, config))
	replace := func(old, new string) {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", config, old)
		}
		text = strings.ReplaceAll(text, old, new)
	}
	replace("bind "+bind, "bind fd@3")
	for name, s := range servers {
		replace(" "+name, " 127.0.0.1:"+s.Port)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	writeFile(t, file, []byte(text))
	ctx, cancel := context.WithTimeout(context.Background(), tooLong)
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-db", "-f", file)
	cmd.ExtraFiles = []*os.File{socket}
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
		if t.Failed() {
			t.Logf("haproxy says:\n%s", said.String())
		}
	})
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// loggedInOn waits until one of the nodes has logged a client in, and returns it.
func loggedInOn(t *testing.T, nodes ...*servetest.Server) (on *servetest.Server) {
	t.Helper()
	testenv.Until(t, "a client has logged in", func() bool {
		for _, s := range nodes {
			if strings.Contains(s.Log.String(), `"logged in"`) {
				on = s
			}
		}
		return on != nil
	})
	return on
}

// Two instances share one storage. When one is killed in the middle of an upload, the client
// continues with the other.
func TestBehindHAProxy(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, `proxy_protocol = ["127.0.0.1"]`)
	writeFile(t, file, bytes.ReplaceAll(readFile(t, file), []byte("1MB"), []byte("1GB")))
	one := servetest.Start(t, home, "usftpd", "--config", file, "-v")
	two := servetest.Start(t, home, "usftpd", "--config", file, "-v")
	if one.Greeting["host key"] != two.Greeting["host key"] {
		t.Fatal("the instances have different keys")
	}
	port := startHAProxy(t, "../../../docs/haproxy.cfg", ":2222",
		map[string]*servetest.Server{"127.0.0.1:2022": one, "127.0.0.1:2023": two})
	// The client's own address, to find it in the log.
	conn, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	client := aliceOn(t, conn, key)
	defer client.Close()
	data := randomData(8_000_001)
	writeFile(t, filepath.Join(home, "big"), data)
	f, err := client.Create("big")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data[:3_000_000], 0); err != nil {
		t.Fatal(err)
	}
	lost, other := one, two
	if loggedInOn(t, one, two) == two {
		lost, other = two, one
	}
	lost.Wait("logged in", func(f map[string]any) bool {
		return f["remote"] == conn.LocalAddr().String()
	})
	lost.Cmd.Process.Kill()
	<-lost.Ended
	if _, err := f.WriteAt(data[3_000_000:], 3_000_000); err == nil {
		t.Fatal("the instance is gone, and the client still writes")
	}
	again := *other
	again.Port = port
	sftp := append(again.SSHFlags("-i", key, "-b", "-"), "alice@127.0.0.1")
	if out, err := again.Client("reput big big\n", opensshd.Find(t, "sftp"), sftp...); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, other.Log)
	}
	servetest.Same(t, data, filepath.Join(home, "alice", "big"))
	line := other.Wait("file closed", func(f map[string]any) bool { return f["path"] == "/big" })
	if line["written"] != float64(len(data)-3_000_000) {
		t.Errorf("the client has started over instead of continuing: %v", line)
	}
	// HAProxy's health checks are logged at debug level only, and count against nobody.
	other.Wait("login failed", func(f map[string]any) bool { return f["level"] == "DEBUG" })
	for line := range strings.Lines(other.Log.String()) {
		if strings.Contains(line, `"login failed"`) && !strings.Contains(line, `"level":"DEBUG"`) ||
			strings.Contains(line, "refused") {
			t.Errorf("the log has %s", line)
		}
	}
}
