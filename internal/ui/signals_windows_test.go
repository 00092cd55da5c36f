package ui

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestCtrlCToAProgram: Ctrl-C in a console goes to all programs in it, and one that it has ended may
// be seen to have ended first.
func TestCtrlCToAProgram(t *testing.T) {
	a := NewApp("usftp")
	ctx, stop := a.CatchSignals(t.Context())
	defer stop()
	err := exec.Command("cmd", "/c", "exit", "-1073741510").Run() // STATUS_CONTROL_C_EXIT
	time.AfterFunc(100*time.Millisecond, func() { a.Signals.caught <- os.Interrupt })
	if got := a.AfterProgram(ctx, err); !errors.As(got, new(*Interruption)) {
		t.Errorf("%v after %v", got, err)
	}
}
