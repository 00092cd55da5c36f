//go:build unix

package ui

import (
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
