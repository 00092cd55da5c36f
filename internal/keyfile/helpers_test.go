package keyfile

import (
	"bytes"
	"encoding/binary"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// raise sets the rounds of an OpenSSH key to 4097.
func raise(t *testing.T, file string) {
	t.Helper()
	block, _ := pem.Decode([]byte(readFile(t, file)))
	i := bytes.Index(block.Bytes, []byte("bcrypt"))
	if i < 0 {
		t.Fatal("it is not encrypted")
	}
	const options, salt = 4, 4 + 16 // the options' length, and the salt with its own
	binary.BigEndian.PutUint32(block.Bytes[i+len("bcrypt")+options+salt:], 4097)
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBcryptIsXCryptos: the copy is x/crypto's, byte for byte.
func TestBcryptIsXCryptos(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/crypto").Output()
	if err != nil {
		t.Fatal(err)
	}
	const name = "bcrypt_pbkdf/bcrypt_pbkdf.go"
	theirs := readFile(t, filepath.Join(strings.TrimSpace(string(dir)), "ssh/internal", name))
	if readFile(t, name) != theirs {
		t.Error(name + " differs from x/crypto's; copy it again, and look at what has changed")
	}
}
