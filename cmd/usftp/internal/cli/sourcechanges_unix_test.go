//go:build unix

package cli

import (
	"os"
	"regexp"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A source that shrinks or grows while it is read produces no file at all.
func TestSourceThatChanges(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	data := randomData(4 << 20)
	shrink := func(f *os.File) error { return f.Truncate(3 << 20) }
	grow := func(f *os.File) error { _, err := f.WriteAt([]byte("more"), 4<<20); return err }
	for _, c := range []struct {
		name   string
		upload bool
		change func(*os.File) error
		says   string
	}{
		{"upload, shrinks", true, shrink, `it shrank from 4194304 bytes to 3145728; --changing accepts what is read up to the end`},
		{"upload, grows", true, grow, `it grew from 4194304 bytes to 4194308; --changing accepts what is read up to the end`},
		{"download, shrinks", false, shrink, `it shrank from 4194304 bytes to 3145728; --changing accepts what is read up to the end`},
		{"download, grows", false, grow, `it grew from 4194304 bytes to 4194308; --changing accepts what is read up to the end`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBigCopy(t, data, c.upload)
			cmd := command(t, b.dir, "cp", "-F", sshd.ConfigFile, "--json", "-l", "5000", b.from, b.to)
			events, stderr := started(t, cmd)
			until(t, events, "progress", 1)
			f, err := os.OpenFile(b.big, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.change(f); err != nil {
				t.Fatal(err)
			}
			f.Close()
			until(t, events, "failed", 0)
			until(t, events, "exit", 0)
			cmd.Wait()
			o := outcome{code: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
			o.says(t, ui.ExitFailed,
				`cannot copy .*big to .*target: the source changed while it was copied: `+c.says)
			unchanged(t, b.target, "old")
		})
	}
}

// The demo needs neither OpenSSH nor a home directory, and leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := command(t, temp, "demo")
	cmd.Env = append(cmd.Env, "HOME=/nonexistent", "PATH=/nonexistent", "TMPDIR="+temp)
	got := finish(t, cmd)
	if got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	want := `^A temporary SFTP server listens on 127\.0\.0\.1:\d+\. Copying there and back over SSH:
  up    one file of 128 MB +\d+\.\d\d s +[\d.]+ [MG]B/s  SHA-256 matches
  down  one file of 128 MB +\d+\.\d\d s +[\d.]+ [MG]B/s  SHA-256 matches
  up    200 files of 4\.00 kB +\d+\.\d\d s +\d+ files/s  SHA-256 matches
  down  200 files of 4\.00 kB +\d+\.\d\d s +\d+ files/s  SHA-256 matches
All files arrived intact\. The temporary files are removed\.
$`
	if !regexp.MustCompile(want).MatchString(got.stdout) {
		t.Errorf("it says:\n%s", got.stdout)
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
