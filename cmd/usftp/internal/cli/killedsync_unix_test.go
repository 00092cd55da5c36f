//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A sync that is killed (kill -9) at any moment and run again makes the target equal. Neither the
// lock nor a temporary file of the killed run is in its way, and none is left behind.
func TestKilledSync(t *testing.T) {
	t.Parallel()
	server := opensshd.Find(t, "sftp-server")
	for _, direction := range []string{"upload", "download"} {
		t.Run(direction, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(9, uint64(len(direction))))
			dir, home := t.TempDir(), t.TempDir()
			begun, ended := filepath.Join(home, "begun"), filepath.Join(home, "ended")
			writeFile(t, begun, nil)
			writeFile(t, ended, nil)
			sshd := opensshd.Start(t, opensshd.Options{Config: []string{fmt.Sprintf(
				"Subsystem sftp echo >>%s; %s; echo >>%s", begun, server, ended)}})
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			from, to := src, "testhost:"+dst
			if direction == "download" {
				from, to = "testhost:"+src, dst
			}
			sync := func(flags ...string) []string {
				return append(append([]string{"sync", "--delete", "--max-delete=1000", "-F",
					sshd.ConfigFile}, flags...), from, to)
			}
			killed := 0
			for round := range 4 {
				randomTree(t, rng, src, round)
				cmd := command(t, dir, sync("--json", "--limit", "16MB")...)
				cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+home)
				events, _ := started(t, cmd)
				for n := 1 + rng.IntN(60); n > 0 && events.Scan(); n-- {
				}
				cmd.Process.Signal(syscall.SIGKILL)
				for events.Scan() {
				}
				cmd.Wait()
				if cmd.ProcessState.ExitCode() < 0 {
					killed++
				}
				// The host still does what the killed run asked for, such as making a file, and the
				// next run could only remove what there is by then.
				testenv.Until(t, "the killed run's server ends", func() bool {
					return bytes.Equal(readFile(t, begun), readFile(t, ended))
				})
				again := command(t, dir, sync()...)
				again.Env = append(again.Env, "XDG_STATE_HOME="+home)
				if o := finish(t, again); o.code != 0 {
					t.Fatalf("round %d: the next run ended with %d: %s", round, o.code, o.stderr)
				}
				if ours, theirs := state(src), listAll(t, dst); !slices.Equal(ours, theirs) {
					t.Fatalf("round %d: SRC is\n%s\nDST is\n%s", round, strings.Join(ours, "\n"),
						strings.Join(theirs, "\n"))
				}
			}
			if killed == 0 {
				t.Error("every run ended before it could be killed")
			}
		})
	}
}

// listAll is state. It fails the test if a lock was left behind.
func listAll(t *testing.T, root string) []string {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(root, ".usftp-sync.lock")); err == nil {
		t.Error("a lock was left behind")
	}
	return state(root)
}

// randomTree makes a tree of small files and a few large ones, or changes it.
func randomTree(t *testing.T, rng *rand.Rand, root string, round int) {
	t.Helper()
	for d := range 4 {
		dir := filepath.Join(root, fmt.Sprint("d", (d+round)%6))
		if rng.IntN(3) == 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for n := range 12 {
			size := rng.IntN(3000)
			if n == 0 {
				size = 300<<10 + rng.IntN(300<<10) // not in one piece
			}
			name := filepath.Join(dir, fmt.Sprint("f", rng.IntN(20)))
			writeFile(t, name, randomData(size))
			if err := os.Chmod(name, 0o600+fs.FileMode(rng.IntN(0o100))); err != nil {
				t.Fatal(err)
			}
		}
	}
}
