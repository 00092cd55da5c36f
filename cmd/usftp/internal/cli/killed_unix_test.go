//go:build unix

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// A killed copy (kill -9) leaves what --resume continues from: the file that it had begun becomes
// the target.
func TestKilled(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(96 << 20)
	const enough, tail = 12 << 20, 1 << 20 // all that was noted is reused, except for its end
	for _, name := range []string{"upload", "download"} {
		t.Run(name, func(t *testing.T) {
			dir, far := t.TempDir(), t.TempDir()
			big, target := filepath.Join(dir, "big"), filepath.Join(far, "target")
			writeFile(t, big, data)
			from, to := "testhost:"+big, target
			if name == "upload" {
				from, to = big, "testhost:"+target
			}
			cmd := command(t, dir, "cp", "-F", sshd.ConfigFile, "--json", "-l", "100000", from, to)
			home := ""
			for _, v := range cmd.Env {
				if value, ok := strings.CutPrefix(v, "HOME="); ok {
					home = value // the last one counts
				}
			}
			cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+home)
			journal := filepath.Join(home, "usftp", "journal")
			events, _ := started(t, cmd)
			for marked(t, journal) < enough {
				until(t, events, "progress", 1)
			}
			cmd.Process.Signal(syscall.SIGKILL)
			for events.Scan() {
			}
			cmd.Wait()
			left, err := filepath.Glob(filepath.Join(far, ".target.usftp-*"))
			if err != nil || len(left) != 1 {
				t.Fatalf("left are %q, %v", left, err)
			}
			begun, err := os.Stat(left[0])
			if err != nil {
				t.Fatal(err)
			}
			again := command(t, dir, "cp", "-F", sshd.ConfigFile, "--json", "--resume", from,
				to)
			again.Env = append(again.Env, "XDG_STATE_HOME="+home)
			if o := finish(t, again); o.code != 0 || o.stderr != "" {
				t.Fatalf("%+v", o)
			} else if reused := resumed(o.stdout); reused < enough-tail {
				t.Errorf("only %d bytes were reused", reused)
			}
			if !bytes.Equal(readFile(t, target), data) {
				t.Error("the target differs")
			}
			if now, err := os.Stat(target); err != nil || !os.SameFile(now, begun) {
				t.Errorf("it started over: %v", err)
			}
			if marks, _ := os.ReadDir(journal); len(marks) != 0 {
				t.Errorf("%d marks are left", len(marks))
			}
		})
	}
}

// marked returns how far the file has come according to the journal's one mark.
func marked(t *testing.T, journal string) int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(journal, "*.json"))
	if err != nil || len(names) == 0 {
		return 0
	}
	var mark struct{ Bytes int64 }
	text := readFile(t, names[0])
	if len(text) == 0 || json.NewDecoder(bytes.NewReader(text)).Decode(&mark) != nil {
		return 0
	}
	return mark.Bytes
}
