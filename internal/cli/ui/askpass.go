package ui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/usftp/usftp/dial"
)

// askpass returns the program that asks in place of the terminal, "" for none, and whether it does
// so even if there is a terminal: SSH_ASKPASS and SSH_ASKPASS_REQUIRE as for ssh.
func askpass() (program string, first bool) {
	program = os.Getenv("SSH_ASKPASS")
	screen := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	switch strings.ToLower(os.Getenv("SSH_ASKPASS_REQUIRE")) {
	case "force":
		return program, true
	case "prefer":
		first = true
	case "never":
		return "", false
	}
	if !screen {
		return "", false
	}
	return program, first
}

// promptBy returns a function that has a program ask: its argument is the question, and its first
// line the answer. It gets no standard input, which may be the file to copy.
func promptBy(program string) dial.PrompterFunc {
	return func(ctx context.Context, p dial.Prompt) (string, error) {
		cmd := exec.CommandContext(ctx, program, printableLines(p.Text))
		cmd.Stderr = os.Stderr
		cmd.WaitDelay = time.Second // what it has started may hold its output
		out, err := cmd.Output()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) { // cancelled, as a rule
			return "", errors.New("no answer")
		} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return "", fmt.Errorf("SSH_ASKPASS: %w", err)
		}
		answer, _, _ := strings.Cut(string(out), "\n")
		return strings.TrimSuffix(answer, "\r"), nil
	}
}
