//go:build unix

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// cutLink is how to reach a server over connections of which the first ones break after so many
// bytes each.
func cutLink(t *testing.T, server *opensshd.Server, breaks ...int64) (flags []string,
	proxy *cutproxy.Proxy) {
	t.Helper()
	proxy = cutproxy.Start(t, server.Addr(), breaks...)
	return []string{"--config", server.ConfigFile, "--port", strconv.Itoa(proxy.Port), "--option",
		"HostKeyAlias=[" + server.Host + "]:" + strconv.Itoa(server.Port)}, proxy
}

// TestVerbsReconnect: over a link that breaks twice, commands print what they print over one that
// does not, and change what they change.
func TestVerbsReconnect(t *testing.T) {
	t.Parallel()
	outlasting := t.TempDir() // until the server has ended, which may still make entries
	server := opensshd.Start(t, opensshd.Options{})
	make := func(t *testing.T) (root string) {
		t.Helper()
		root = filepath.Join(t.TempDir(), "tree")
		for i := range 500 { // with names so long that a list of them exceeds both breaks
			name := filepath.Join(root, fmt.Sprintf("dir%02d", i%30),
				fmt.Sprintf("a file with a name %0180d", i))
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, name, nil)
		}
		writeFile(t, filepath.Join(root, "big"), randomData(1<<20))
		return root
	}
	root := make(t)
	for name, args := range map[string][]string{
		"ls":   {"ls", "-lR", "testhost:" + root},
		"find": {"find", "testhost:" + root, "-name", "*7*"},
		"du":   {"du", "-a", "testhost:" + root},
		"cat":  {"cat", "testhost:" + root + "/big", "testhost:" + root + "/big"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := run(t, t.TempDir(), append(args, "--config", server.ConfigFile)...)
			flags, proxy := cutLink(t, server, 40_000, 80_000)
			got := run(t, t.TempDir(), append(args, flags...)...)
			if got.code != ui.ExitOK || got.stdout != want.stdout || proxy.Connections() != 3 ||
				strings.Count(got.stderr, "testhost: connection lost; reconnecting in") != 2 ||
				strings.Count(got.stderr, "testhost: connected again\n") != 2 {
				t.Errorf("exit code %d after %d connections; %d bytes, want %d: %s", got.code,
					proxy.Connections(), len(got.stdout), len(want.stdout), got.stderr)
			}
		})
	}
	t.Run("chmod", func(t *testing.T) {
		t.Parallel()
		root := make(t)
		flags, proxy := cutLink(t, server, 40_000, 80_000)
		got := run(t, t.TempDir(), append([]string{"chmod", "-R", "o+w", "testhost:" + root},
			flags...)...)
		if got.code != ui.ExitOK || proxy.Connections() != 3 {
			t.Errorf("%d connections: %+v", proxy.Connections(), got)
		}
		filepath.WalkDir(root, func(name string, d os.DirEntry, _ error) error {
			if info, err := d.Info(); err != nil || info.Mode()&0o002 == 0 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
			return nil
		})
	})
	t.Run("rm", func(t *testing.T) {
		t.Parallel()
		root := make(t)
		flags, proxy := cutLink(t, server, 40_000, 80_000)
		got := run(t, t.TempDir(), append([]string{"rm", "-r", "testhost:" + root}, flags...)...)
		if got.code != ui.ExitOK || proxy.Connections() != 3 {
			t.Errorf("%d connections: %+v", proxy.Connections(), got)
		}
		if _, err := os.Stat(root); err == nil {
			t.Error("it is still there")
		}
	})
	t.Run("not twice", func(t *testing.T) {
		t.Parallel()
		flags, proxy := cutLink(t, server, 40_000)
		dir := outlasting
		var args []string
		for i := range 1500 { // mkdir without -p: a directory that is there may be another's
			args = append(args, fmt.Sprintf("testhost:%s/new%d", dir, i))
		}
		got := run(t, t.TempDir(), append(append([]string{"mkdir"}, args...), flags...)...)
		if got.code != ui.ExitNoHost || proxy.Connections() != 1 {
			t.Errorf("%d connections: exit code %d: %s", proxy.Connections(), got.code, got.stderr)
		}
	})
}

// TestTailReconnects: tail -f continues with what was added to the file in the meantime.
func TestTailReconnects(t *testing.T) {
	t.Parallel()
	server := opensshd.Start(t, opensshd.Options{})
	file := filepath.Join(t.TempDir(), "log")
	writeFile(t, file, []byte("one\n"))
	flags, proxy := cutLink(t, server)
	cmd := command(t, t.TempDir(), append([]string{"tail", "-f", "-s", "0.1", "testhost:" + file},
		flags...)...)
	lines, stderr := started(t, cmd)
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(text + "\n")
		f.Close()
	}
	for _, want := range []string{"one", "two", "three", "four"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("it prints %q, want %q: %s", lines.Text(), want, stderr)
		}
		switch want {
		case "one":
			add("two")
		case "two":
			proxy.Cut()
			add("three")
		case "three":
			add("four")
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if proxy.Connections() != 2 {
		t.Errorf("%d connections", proxy.Connections())
	}
}
