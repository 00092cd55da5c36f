package store

import (
	"bytes"
	"testing"
)

// Names are bytes, of which the last may have no successor.
func TestBeyond(t *testing.T) {
	for prefix, want := range map[string][]byte{
		"":              nil,
		"\xff\xff":      nil,
		"a/":            []byte("a0"),
		"a\xff\xff":     []byte("b"),
		"\xc3\xa9":      []byte("\xc3\xaa"),
		"a\xfe":         []byte("a\xff"),
		"a\xff\xfe\xff": []byte("a\xff\xff"),
	} {
		if got := beyond(prefix); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("beyond %q: %q, want %q", prefix, got, want)
		}
	}
}
