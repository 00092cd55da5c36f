package cli

import (
	"bytes"
	"os"
	"testing"

	"github.com/usftp/usftp/internal/cli/ui"
)

// docs/usftp.1 is what the command prints.
func TestManPage(t *testing.T) {
	t.Parallel()
	committed, err := os.ReadFile("../../docs/usftp.1")
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	writeMan(&page, commandLine(ui.NewApp()))
	if !bytes.Equal(page.Bytes(), committed) {
		t.Error("docs/usftp.1 is old: run `go run ./cmd/usftp man >docs/usftp.1`")
	}
}
