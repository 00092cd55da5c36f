package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// TestFlagHints: hints are about flags that the command does not have, and are shown in one line.
func TestFlagHints(t *testing.T) {
	t.Parallel()
	for _, hint := range flagHints {
		for _, command := range strings.Fields(hint.commands) {
			for _, name := range strings.Fields(hint.names) {
				root := commandLine(ui.NewApp("usftp"))
				root.SetOut(io.Discard)
				cmd, _, err := root.Find([]string{command})
				if err != nil || cmd == root {
					t.Fatalf("there is no command %q: %v", command, err)
				}
				flag := "--" + name
				if len(name) == 1 {
					flag = "-" + name
				}
				root.SetArgs([]string{command, flag, "a", "h:b"})
				if err := root.Execute(); ui.CodeOf(err) == ui.ExitOK ||
					!strings.Contains(err.Error(), flag) ||
					!strings.HasSuffix(err.Error(), "; "+hint.text) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("usftp %s %s: %v", command, flag, err)
				}
			}
		}
	}
}

// TestRefusedH: touch -h and the like are about links elsewhere, so they do not print help and
// succeed.
func TestRefusedH(t *testing.T) {
	t.Parallel()
	for args, sentence := range map[string]string{
		"touch -h h:a":     "-h is not supported: links are followed",
		"chmod -h 600 h:a": "-h is not supported: operands that are links are followed",
		"ln -sh a h:b":     "-h is not supported: use -n",
	} {
		run(t, t.TempDir(), strings.Fields(args)...).says(t, ui.ExitFailed, sentence+
			"\nTry .*")
	}
	if o := run(t, t.TempDir(), "touch", "-h"); o.code != ui.ExitOK || !strings.Contains(o.stdout, "Usage:") {
		t.Errorf("%d, %q", o.code, o.stdout)
	}
}

// TestLimitOfRsync: the l in rsync's -rlpt takes what follows it as a limit.
func TestLimitOfRsync(t *testing.T) {
	t.Parallel()
	run(t, t.TempDir(), "sync", "-rlpt", "a", "h:").says(t, ui.ExitUsage,
		`invalid argument "pt" for "-l, --limit" flag: .*; -l limits the speed, .*`+"\nTry .*")
}

func TestFindWithoutRegex(t *testing.T) {
	t.Parallel()
	run(t, t.TempDir(), "find", "h:a", "-regex", ".*x").says(t, ui.ExitFailed,
		`unknown predicate "-regex"; use -path with a pattern, or pipe into grep`+"\nTry .*")
}
