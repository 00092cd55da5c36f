package keyfile

import (
	"bytes"
	"encoding/pem"
	"os"
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
