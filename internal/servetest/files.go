package servetest

import (
	"math/rand/v2"
	"os"
	"testing"
)

// RandomData returns the same bytes in each run.
func RandomData(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{'u', 's', 'f', 't', 'p'}).Read(data)
	return data
}

// WriteFile writes a file that everybody may read.
func WriteFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns a file's contents.
func ReadFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
