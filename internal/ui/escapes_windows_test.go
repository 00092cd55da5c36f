package ui

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestConsoleWithoutEscapes: a console that does not obey escape sequences, such as a legacy one,
// shows lines only at the end.
func TestConsoleWithoutEscapes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "screen")
	screen, err := os.Create(name) // which cannot be told to obey them either
	if err != nil {
		t.Fatal(err)
	}
	c := &Console{program: "usftp", file: screen}
	c.Show(func(int) []string { return []string{"10%"} })
	c.Say("message")
	c.Hide()
	screen.Close()
	if text, err := os.ReadFile(name); err != nil ||
		!bytes.Equal(text, []byte("usftp: message\n10%\n")) {
		t.Errorf("it shows %q, %v", text, err)
	}
}
