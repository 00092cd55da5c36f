package ui

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/dial"
)

// TestAskpassIsABatchFile: the server's question runs nothing.
func TestAskpassIsABatchFile(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "ask.bat")
	text := "@echo off\r\necho asked %1\r\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	stolen := filepath.Join(dir, "stolen")
	for _, question := range []string{`Code "&echo x>` + stolen + `&":`, "Code&echo>" + stolen,
		"Code\necho x>" + stolen, "Code %PATH% ^& !PATH!"} {
		answer, err := promptBy(program)(t.Context(), dial.Prompt{Kind: dial.AskChallenge,
			Text: question})
		if err != nil || !strings.HasPrefix(strings.Trim(answer, `"`), "asked ") ||
			!strings.Contains(answer, "Code") || strings.Contains(answer, os.Getenv("PATH")) {
			t.Errorf("asked %q, it answered %q, %v", question, answer, err)
		}
		if _, err := os.Stat(stolen); err == nil {
			t.Fatalf("%q ran", question)
		}
	}
}
