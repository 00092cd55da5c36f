package ui

import "testing"

// The command to resume is the one that was typed, quoted for a shell.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		`usftp cp --resume -r a 'b c' host:`: {"cp", "-r", "a", "b c", "host:"},
		`usftp cp --resume 'it'\''s' '$HOME' 'host:*.gz' .`: {"cp", "it's", "$HOME", "host:*.gz",
			"."},
		`usftp cp -r --resume a host:`:         {"cp", "-r", "--resume", "a", "host:"},
		`usftp cp --resume $'x\x1b[31m\'y' ''`: {"cp", "x\x1b[31m'y", ""},
	} {
		if got := CommandLine(args, "cp", "--resume"); got != want {
			t.Errorf("%q makes %s, want %s", args, got, want)
		}
	}
}
