package cli

import (
	"os"
	"testing"

	"github.com/usftp/usftp/internal/cli/ui"
)

// The man pages in docs are what the command generates.
func TestManPage(t *testing.T) {
	t.Parallel()
	for name, page := range manPages(commandLine(ui.NewApp())) {
		committed, err := os.ReadFile("../../docs/" + name)
		if err != nil || page != string(committed) {
			t.Errorf("docs/%s is old: run `go run ./cmd/usftp man --dir docs`", name)
		}
	}
}
