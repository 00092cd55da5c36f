package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/usftp/usftp/cmd/usftp/internal/files"
	"github.com/usftp/usftp/internal/ui"
)

// Help fits on a terminal of 80 columns, both of the command line and of a session.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	texts := make(map[string]string)
	root := commandLine(ui.NewApp("usftp"))
	for _, cmd := range append(root.Commands(), root) {
		var b bytes.Buffer
		cmd.SetOut(&b)
		if err := cmd.Help(); err != nil {
			t.Error(err)
		}
		texts["usftp help "+cmd.Name()] = b.String()
	}
	for _, c := range files.SessionCommands() {
		texts["help "+c.Name] = c.Help()
	}
	for name, text := range texts {
		if strings.Count(text, "\n") < 3 {
			t.Errorf("%s prints only %q", name, text)
		}
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%s has a line of %d columns: %s", name, len(line)-1, line)
			}
		}
	}
}
