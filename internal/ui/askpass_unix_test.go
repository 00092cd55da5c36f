//go:build unix

package ui

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/dial"
)

// TestAskpassOrTerminal: when the program is used is as ssh(1) says.
func TestAskpassOrTerminal(t *testing.T) {
	for _, c := range []struct {
		require, display, wayland string
		program                   string
		first                     bool
	}{
		{"", "", "", "", false},
		{"", ":0", "", "ask", false},
		{"", "", "wayland-0", "ask", false},
		{"never", ":0", "", "", false},
		{"prefer", "", "", "", false},
		{"prefer", ":0", "", "ask", true},
		{"Force", "", "", "ask", true},
	} {
		t.Setenv("SSH_ASKPASS", "ask")
		t.Setenv("SSH_ASKPASS_REQUIRE", c.require)
		t.Setenv("DISPLAY", c.display)
		t.Setenv("WAYLAND_DISPLAY", c.wayland)
		if program, first := askpass(); program != c.program || program != "" && first != c.first {
			t.Errorf("%+v: %q, %v", c, program, first)
		}
	}
}

func TestAskpassAnswers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ask")
	ask := promptBy(program)
	for _, c := range []struct{ script, answer, err string }{
		{`printf %s "$1"`, `Really?\x1b[31m`, ""},
		{"printf 'a b \\r\\nmore'", "a b ", ""},
		{"printf x", "x", ""},
		{"cat", "", ""},
		{"echo x; exit 1", "", "no answer"},
	} {
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		answer, err := ask(t.Context(), dial.Prompt{Text: "Really?\x1b[31m"})
		if err == nil && c.err != "" || err != nil && err.Error() != c.err ||
			err == nil && answer != c.answer {
			t.Errorf("%s: %q, %v", c.script, answer, err)
		}
	}
	// What the program has started holds its output for longer.
	if err := os.WriteFile(program, []byte("#!/bin/sh\nsleep 20 & echo x $!\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	answer, err := ask(t.Context(), dial.Prompt{})
	if took := time.Since(began); err != nil || took >= 20*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	pid, err := strconv.Atoi(strings.TrimPrefix(answer, "x "))
	if err != nil {
		t.Fatalf("%q: %v", answer, err)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ctx, dial.Prompt{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := promptBy(program+"2")(t.Context(), dial.Prompt{}); err == nil {
		t.Error("a program that is not there answers")
	}
}
