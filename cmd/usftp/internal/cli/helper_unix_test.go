//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A host whose server cannot do its part of a delta is helped by usftp, where it is on the PATH and
// may be run. Where it is not, or must not be, the file is sent whole, and nobody is bothered.
func TestHelperOnTheHost(t *testing.T) {
	t.Parallel()
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	old := randomData(4 << 20)
	fresh := append([]byte("something new"), old...)
	for name, test := range map[string]struct {
		config  []string // of sshd; PATH is where usftp is
		flags   []string
		started bool // usftp is run on the host
		helps   bool
	}{
		"on the PATH": {config: []string{"SetEnv SHLVL=1 PATH=%s:" + os.Getenv("PATH")},
			started: true, helps: true},
		"not on the PATH": {config: []string{"SetEnv SHLVL=1 PATH=/usr/bin:/bin"}},
		"forbidden": {config: []string{"SetEnv SHLVL=1 PATH=%s:" + os.Getenv("PATH")},
			flags: []string{"--no-helper"}},
		"not wanted": {config: []string{"SetEnv SHLVL=1 PATH=%s:" + os.Getenv("PATH")},
			flags: []string{"--whole-file"}},
		"an SFTP server of one's own": {config: []string{"SetEnv SHLVL=1 PATH=%s:" +
			os.Getenv("PATH")}, flags: []string{"--sftp-server", "exec sftp-server"}},
		"only sftp": {config: []string{"ForceCommand internal-sftp",
			"Subsystem sftp internal-sftp"}},
		"only sftp, or else": {config: []string{
			"ForceCommand if [ \"$SSH_ORIGINAL_COMMAND\" = internal-sftp ]; then exec %s/sftp-server; else echo no shell for you; exit 1; fi", "Subsystem sftp internal-sftp"}},
	} {
		for _, direction := range []string{"upload", "download"} {
			t.Run(name+"/"+direction, func(t *testing.T) {
				t.Parallel()
				bin := t.TempDir()
				marker := filepath.Join(bin, "started")
				script := fmt.Sprintf("#!/bin/sh\n: >%q\nexec %q \"$@\"\n", marker, usftp)
				if err := os.WriteFile(filepath.Join(bin, "usftp"), []byte(script),
					0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(opensshd.Find(t, "sftp-server"),
					filepath.Join(bin, "sftp-server")); err != nil {
					t.Fatal(err)
				}
				options := opensshd.Options{}
				for _, line := range test.config {
					options.Config = append(options.Config, strings.ReplaceAll(line, "%s", bin))
				}
				sshd := opensshd.Start(t, options)
				dir := t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				for where, data := range map[string][]byte{src: fresh, dst: old} {
					if err := os.Mkdir(where, 0o755); err != nil {
						t.Fatal(err)
					}
					writeFile(t, filepath.Join(where, "big"), data)
				}
				from, to := src, "testhost:"+dst
				if direction == "download" {
					from, to = "testhost:"+src, dst
				}
				args := append([]string{"sync", "--json", "--limit", "2MB", "-F", sshd.ConfigFile},
					test.flags...)
				o := run(t, dir, append(args, from, to)...)
				if o.code != 0 || o.stderr != "" {
					t.Fatalf("it ended with %d, and said %q", o.code, o.stderr)
				}
				servetest.Same(t, fresh, filepath.Join(dst, "big"))
				reused := reusedBytes(t, o.stdout)
				if helped := reused > int64(len(old)/2); helped != test.helps ||
					!helped && reused != 0 {
					t.Errorf("%d bytes were taken from the old file", reused)
				}
				if _, err := os.Stat(marker); (err == nil) != test.started {
					t.Errorf("usftp was started on the host: %v", err == nil)
				}
			})
		}
	}
}

// reusedBytes returns how much of all files was taken from their older versions.
func reusedBytes(t *testing.T, events string) (sum int64) {
	t.Helper()
	for line := range strings.Lines(events) {
		var e struct {
			Kind   string
			Reused int64
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Kind == "done" {
			sum += e.Reused
		}
	}
	return sum
}
