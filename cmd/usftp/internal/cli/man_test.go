package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// The man pages in docs are what the command generates.
func TestManPage(t *testing.T) {
	t.Parallel()
	for name, page := range manPages(commandLine(ui.NewApp("usftp"))) {
		committed, err := os.ReadFile("../../../../docs/" + name)
		if err != nil || page != string(committed) {
			t.Errorf("docs/%s is old: run `go run ./cmd/usftp man --dir docs`", name)
		}
	}
}

// The man page names every file that the command keeps.
func TestManPageFiles(t *testing.T) {
	t.Parallel()
	page := manPages(commandLine(ui.NewApp("usftp")))["usftp.1"]
	_, files, _ := strings.Cut(page, ".SH FILES\n")
	for _, name := range []string{"/journal", "/logins", `/failed\-hosts`, "/host_ed25519_key"} {
		if !strings.Contains(files, name) {
			t.Errorf("FILES does not name %s", name)
		}
	}
}
