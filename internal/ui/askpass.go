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

// askpass returns the program that asks instead of the terminal, "" for none, and whether it does
// so even if there is a terminal. SSH_ASKPASS and SSH_ASKPASS_REQUIRE have their meaning for ssh.
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

// promptBy returns a prompter that runs a program. Its argument is the question, and the first line
// that it prints is the answer. It gets no standard input, which may be the file to copy.
func promptBy(program string) dial.PrompterFunc {
	return func(ctx context.Context, p dial.Prompt) (string, error) {
		question := printableLines(p.Text)
		if IsBatch(program) {
			question = batchText.Replace(question)
		}
		cmd := exec.CommandContext(ctx, program, question)
		cmd.Stderr = os.Stderr
		cmd.WaitDelay = time.Second // programs that it started may hold its output open
		out, err := cmd.Output()
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		if errors.As(err, new(*exec.ExitError)) { // usually cancelled
			return "", errors.New("no answer")
		} else if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
			return "", fmt.Errorf("SSH_ASKPASS: %w", err)
		}
		answer, _, _ := strings.Cut(string(out), "\n")
		return strings.TrimSuffix(answer, "\r"), nil
	}
}
