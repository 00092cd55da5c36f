package keyfile

import (
	"bytes"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// patch replaces the first of some bytes in a PEM file.
func patch(t *testing.T, file, old, fresh string) {
	t.Helper()
	block, _ := pem.Decode([]byte(readFile(t, file)))
	if !bytes.Contains(block.Bytes, []byte(old)) {
		t.Fatalf("%s has no %q", file, old)
	}
	block.Bytes = bytes.Replace(block.Bytes, []byte(old), []byte(fresh), 1)
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBcryptIsXCryptos: the copy is x/crypto's, byte for byte, after a line for staticcheck.
func TestBcryptIsXCryptos(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/crypto").Output()
	if err != nil {
		t.Fatal(err)
	}
	const name = "bcrypt_pbkdf/bcrypt_pbkdf.go"
	theirs := readFile(t, filepath.Join(strings.TrimSpace(string(dir)), "ssh/internal", name))
	if _, ours, _ := strings.Cut(readFile(t, name), "\n\n"); ours != theirs {
		t.Error(name + " differs from x/crypto's; copy it again, and look at what has changed")
	}
}
