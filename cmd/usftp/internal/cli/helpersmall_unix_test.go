//go:build unix

package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// manyFiles is how many small files a tree has, enough for usftp to be started on the host.
const manyFiles = 1000

// writeMany makes a tree of many small files.
func writeMany(t *testing.T, dir string) {
	t.Helper()
	for i := range manyFiles {
		if i%100 == 0 {
			if err := os.MkdirAll(filepath.Join(dir, fmt.Sprint("d", i/400, "/e", i/100)),
				0o755); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, filepath.Join(dir, fmt.Sprint("d", i/400, "/e", i/100, "/f", i)),
			fmt.Append(nil, strings.Repeat("x", i%500), i))
	}
}

// tree describes the files below a directory: their names, modes, times, owners and contents.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&all, "%s %v %d", rel, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		if !d.IsDir() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, " %d %s", info.ModTime().Unix(), data)
		}
		all.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestSmallFilesByHelper: where sshd's own server takes small files one by one, usftp takes several
// at once, if it is there and does what sshd's does. Otherwise, and whatever it does, the copy is
// the same, and nothing else is touched.
func TestSmallFilesByHelper(t *testing.T) {
	t.Parallel()
	usftp, err := exec.LookPath("usftp")
	if err != nil {
		t.Fatal(err)
	}
	path := "SetEnv SHLVL=1 PATH=%s:" + os.Getenv("PATH")
	for name, test := range map[string]struct {
		config       []string // of sshd
		script       string   // what runs as usftp on the host
		flags        []string
		started      bool
		puts, gets   bool // it does
		upload, root bool // only these
	}{
		"helps":         {script: `exec %s "$@" -e -l info`, started: true, puts: true, gets: true},
		"not wanted":    {script: `exec %s "$@" -e -l info`, flags: []string{"--no-helper"}},
		"not there":     {config: []string{"SetEnv SHLVL=1 PATH=/usr/bin:/bin"}},
		"only sftp":     {config: []string{"ForceCommand internal-sftp", "Subsystem sftp internal-sftp"}},
		"an older one":  {script: `exec %s "$@" -e -l info -P put-files,get-files`, started: true},
		"no server":     {script: `echo welcome`, started: true},
		"silent":        {script: `exec cat >/dev/null`, started: true},
		"another umask": {script: `umask 077; exec %s "$@" -e -l info`, started: true, upload: true},
		"read-only":     {script: `exec %s "$@" -e -l info -R`, started: true, upload: true},
		"another user": {script: `exec setpriv --reuid 65534 --clear-groups %s "$@" -e -l info`,
			started: true, upload: true, root: true},
		"other files": {script: `exec unshare -m sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@" -e -l info' $DST %s "$@"`,
			started: true, root: true},
		"other files in places": {
			script:  `exec unshare -m sh -c 'for i in 0 1 2; do mkdir -p "$0/d$i" && mount -t tmpfs tmpfs "$0/d$i"; done; exec "$@" -e -l info' $DST %s "$@"`,
			started: true, root: true},
		"dies": {script: `%s "$@" -e -l info | head -c 3000`, started: true},
	} {
		for _, direction := range []string{"upload", "download"} {
			if test.upload && direction == "download" || test.root && os.Getuid() != 0 {
				continue
			}
			t.Run(name+"/"+direction, func(t *testing.T) {
				t.Parallel()
				bin, dir := t.TempDir(), t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				log := filepath.Join(bin, "log")
				shared := dst
				if direction == "download" {
					shared = src
				}
				script := "#!/bin/sh\nexec 2>>" + log + "\n" +
					strings.NewReplacer("%s", usftp, "$DST", shared).Replace(test.script) + "\n"
				if err := os.WriteFile(filepath.Join(bin, "usftp"), []byte(script),
					0o755); err != nil {
					t.Fatal(err)
				}
				options := opensshd.Options{Config: test.config}
				if test.config == nil {
					options.Config = []string{strings.ReplaceAll(path, "%s", bin)}
				}
				sshd := opensshd.Start(t, options)
				writeMany(t, src)
				if err := os.Mkdir(dst, 0o755); err != nil {
					t.Fatal(err)
				}
				for _, open := range []string{filepath.Dir(dir), dir, dst} { // to other users
					if err := os.Chmod(open, 0o777); err != nil {
						t.Fatal(err)
					}
				}
				from, to := src+"/.", "testhost:"+dst
				if direction == "download" {
					from, to = "testhost:"+src+"/.", dst
				}
				args := append([]string{"cp", "-r", "-p", "-F", sshd.ConfigFile}, test.flags...)
				if test.started { // before the copy is over, on a busy machine, too
					args = append(args, "--limit", "170")
				}
				helps := test.puts && direction == "upload" || test.gets && direction == "download"
				tries := 1
				if helps {
					tries = 5 // on a busy machine all files may be in progress before it is proved
				}
				for try := 1; ; try++ {
					o := run(t, dir, append(args, from, to)...)
					if o.code != 0 || o.stderr != "" {
						t.Fatalf("it ended with %d, and said %q", o.code, o.stderr)
					}
					if have, want := tree(t, dst), tree(t, src); have != want {
						t.Errorf("the copy differs: %d bytes of description, want %d", len(have),
							len(want))
					}
					said, err := os.ReadFile(log)
					if started := err == nil; started != test.started {
						t.Errorf("usftp was started on the host: %v", started)
					}
					did := bytes.Count(said, []byte("\n"))
					// how much is left for it depends on when it starts; a proof takes a handful
					if helps == (did > 20) || name == "dies" {
						break
					}
					if try == tries {
						t.Fatalf("usftp on the host did %d things", did)
					}
					for _, remove := range []string{log, dst} {
						if err := os.RemoveAll(remove); err != nil {
							t.Fatal(err)
						}
					}
					if err := os.Mkdir(dst, 0o777); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}
