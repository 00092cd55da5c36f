package stdio_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/stdio"
)

// configVariable makes this test binary a server, with the configuration that it holds.
const configVariable = "USFTP_TEST_STDIO"

func TestMain(m *testing.M) {
	text := os.Getenv(configVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var config stdio.Config
	err := json.Unmarshal([]byte(text), &config)
	if err == nil {
		err = stdio.Serve(context.Background(), config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sftp runs OpenSSH's client with a batch of commands on a server of this package.
func sftp(t *testing.T, config stdio.Config, batch ...string) (output string, err error) {
	t.Helper()
	testenv.Program(t, "sftp")
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sftp", "-b", "-", "-D", os.Args[0])
	cmd.Env = append(os.Environ(), configVariable+"="+string(text))
	cmd.Stdin = strings.NewReader(strings.Join(batch, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestStandsInForSftpServer(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 3<<20+1)
	rand.Read(data)
	if err := os.WriteFile(filepath.Join(dir, "a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	config := stdio.Config{StartDirectory: dir}
	out, err := sftp(t, config, "put "+dir+"/a up", "get up "+dir+"/b", "ls -l up", "pwd")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d, %v", len(got), len(data), err)
	}
	if !strings.Contains(out, "Remote working directory: "+dir) ||
		!strings.Contains(out, "-rw-------") {
		t.Errorf("unexpected output:\n%s", out)
	}
}

func TestFlags(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := sftp(t, stdio.Config{StartDirectory: dir, ReadOnly: true},
		"put "+dir+"/a b"); err == nil {
		t.Errorf("-R let a file in:\n%s", out)
	}
	if out, err := sftp(t, stdio.Config{StartDirectory: dir, Denied: []string{"remove"}},
		"rm a"); err == nil {
		t.Errorf("-P let a file be removed:\n%s", out)
	}
	allowed := stdio.Config{StartDirectory: dir, Allowed: []string{"realpath", "stat", "lstat"}}
	if out, err := sftp(t, allowed, "get a "+dir+"/b"); err == nil {
		t.Errorf("-p let a file be read:\n%s", out)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, me.Username+"%"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := sftp(t, stdio.Config{StartDirectory: "%d/%u%%"}, "pwd")
	if err != nil || !strings.Contains(out, home+"/"+me.Username+"%") {
		t.Errorf("-d with tokens: %v\n%s", err, out)
	}
	for _, bad := range []string{"%x", "%", dir + "/none", dir + "/a"} {
		if err := stdio.Serve(t.Context(), stdio.Config{StartDirectory: bad}); err == nil {
			t.Errorf("the start directory %q was taken", bad)
		}
	}
}
