package ssh_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestServerWithDropbear: dbclient guesses the key exchange and sends its first message at once.
// Depending on our order, the guess is right or wrong.
func TestServerWithDropbear(t *testing.T) {
	program, convert := opensshd.Find(t, "dbclient"), opensshd.Find(t, "dropbearkey")
	for name, kex := range map[string][]string{
		"as they come": nil, "wrong guess": {"ecdh-sha2-nistp256"},
		"curve25519": {"curve25519-sha256"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "id")
			out, err := exec.Command(convert, "-t", "ed25519", "-f", file).CombinedOutput()
			if err != nil {
				t.Fatalf("dropbearkey: %v: %s", err, out)
			}
			at := bytes.Index(out, []byte("ssh-ed25519 "))
			key, _, _, _, err := xssh.ParseAuthorizedKey(out[max(at, 0):])
			must(t, err)
			sc := serverConfig(t, key)
			sc.Algorithms.KeyExchanges = kex
			data := pattern(3 << 20)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, program, "-y", "-y", "-i", file, "-p",
				strconv.Itoa(execServer(t, sc)), "ann@127.0.0.1", "cat")
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
			cmd.Stdin = bytes.NewReader(data)
			// Into a file: dbclient can miss the end of a session while a pipe is full.
			stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
			must(t, err)
			defer stdout.Close()
			var words bytes.Buffer
			cmd.Stdout, cmd.Stderr = stdout, &words
			err = cmd.Run()
			got, readErr := os.ReadFile(stdout.Name())
			must(t, readErr)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back, %v: %s", len(got), err, words.Bytes())
			}
		})
	}
}
