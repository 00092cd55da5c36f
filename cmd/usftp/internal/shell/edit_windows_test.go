package shell

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// TestLocalNameOnWindows: a file whose name is a device's there can be edited.
func TestLocalNameOnWindows(t *testing.T) {
	for name, want := range map[string]string{"/src/aux.c": "file.c", "nul": "file", "con.": "file",
		"auxiliary.c": "auxiliary.c"} {
		if is := localName(name); is != want {
			t.Errorf("localName(%q) is %q, want %q", name, is, want)
		}
	}
}

// TestCtrlCToAProgram: what Ctrl-C has ended means nothing to find -exec.
func TestCtrlCToAProgram(t *testing.T) {
	s := &shell{app: ui.NewApp("usftp")}
	err := s.program(t.Context(), []string{"cmd", "/c", "exit", "-1073741510"})
	if !errors.As(err, new(*reportedError)) || errors.As(err, new(*exec.ExitError)) {
		t.Errorf("the program ended with %v", err)
	}
}
