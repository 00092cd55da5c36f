//go:build unix

package ui

import (
	"errors"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// Under nohup, a program that only takes longer to clean up, such as mount, still ignores SIGHUP.
// One that reloads on SIGHUP, such as serve, gets it.
func TestHangupUnderNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	a := NewApp("usftp")
	_, stop := a.CatchSignals(t.Context())
	defer stop()
	a.Signals.Set(time.Second, nil)
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("SIGHUP is no longer ignored")
	}
	a.Signals.Set(time.Second, func() {})
	if signal.Ignored(syscall.SIGHUP) {
		t.Error("SIGHUP is ignored, and so nothing reloads")
	}
}

// TestProgramEndedWithUs: what a program's end says does not count once a signal has come, which may
// have been sent to the program, too.
func TestProgramEndedWithUs(t *testing.T) {
	for _, program := range []string{"exit 0", "exit 20", "kill -TERM $$"} {
		a := NewApp("usftp")
		ctx, stop := a.CatchSignals(t.Context())
		err := exec.Command("sh", "-c", program).Run()
		if program[0] == 'e' {
			if got := a.AfterProgram(ctx, err); got != err {
				t.Errorf("after %s: %v, want %v", program, got, err)
			}
			syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
			<-a.Signals.came
		} else {
			go syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
		}
		if err := a.AfterProgram(ctx, err); !errors.As(err, new(*Interruption)) {
			t.Errorf("after %s and the signal: %v", program, err)
		}
		stop()
	}
}
