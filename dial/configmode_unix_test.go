//go:build unix

package dial

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// TestConfigOthersMayWrite: as with ssh, the user's configuration and what a configuration includes
// must not be others' to write; a file named by -F may be.
func TestConfigOthersMayWrite(t *testing.T) {
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(home, ".ssh", "config"), "Include more\nPort 22\n")
	more := writeFile(t, filepath.Join(home, ".ssh", "more"), "User u\n")
	for _, test := range []struct {
		name, file string
		mode       os.FileMode
		named      bool // by -F
		says       string
	}{
		{"safe", file, 0o644, false, ""},
		{"the user's", file, 0o664, false, "bad owner or permissions"},
		{"the user's, to anybody", file, 0o646, false, "bad owner or permissions"},
		{"included", more, 0o664, false, "bad owner or permissions"},
		{"included by a file named by -F", more, 0o664, true, "bad owner or permissions"},
	} {
		if err := os.Chmod(test.file, test.mode); err != nil {
			t.Fatal(err)
		}
		c := &Config{Env: withoutSSH(home)}
		if test.named {
			c.ConfigFile = writeFile(t, filepath.Join(home, "named"), "Include "+more+"\n")
			if err := os.Chmod(c.ConfigFile, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := settingsOf(t, Target{Host: "h"}, c)
		if (err == nil) != (test.says == "") || err != nil && (!strings.Contains(err.Error(),
			test.says) || !strings.Contains(err.Error(), test.file)) {
			t.Errorf("%s: %v", test.name, err)
		}
		if err := os.Chmod(test.file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestKindOfSession: Match may be about what is to run, and ssh takes nothing to run beside a
// RemoteCommand.
func TestKindOfSession(t *testing.T) {
	dir := t.TempDir()
	testenv.OpenSSH10(t, dir)("/usr/bin/ssh")
	conf := writeFile(t, filepath.Join(dir, "conf"), "Host fixed\n RemoteCommand ls\n User fixed\n"+
		"Match sessiontype subsystem command sftp\n User subsystem\n"+
		"Match sessiontype exec command \"/s -x\"\n User command\n"+
		"Match sessiontype none\n User tunnel\n")
	env := append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	for want, c := range map[string]Config{"subsystem": {}, "command": {SFTPServer: "/s -x"},
		"tunnel": {hop: true}, "fixed": {}} {
		c.ConfigFile, c.Env = conf, env
		s, err := settingsOf(t, Target{Host: want}, &c)
		if err != nil || s.user != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
