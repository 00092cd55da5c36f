package daemon

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// What cannot be carried out is refused in one sentence.
func TestUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"", "^usftpd: --config FILE is missing", 2},
		{"--config none.toml --log-format xml",
			"^usftpd: --log-format xml: must be text or json", 2},
		{"--config none.toml --log-level loud", "^usftpd: --log-level loud: must be quiet", 2},
		{"--config none.toml --grace=-1s", "^usftpd: --grace -1s: a time cannot be negative", 2},
		{"--bogus", "^usftpd: unknown flag: --bogus\nTry `usftpd --help`", 2},
		{"bogus", `^usftpd: unknown command "bogus"`, 2},
		{"help bogus", `^usftpd: unknown command "bogus"`, 2},
		{"hash-password x", "Try `usftpd hash-password --help` for more information", 2},
		{"completion tcsh", "^usftpd: completion needs a shell: bash, zsh, fish or powershell", 2},
		{"health", "^usftpd: health takes one address:port", 2},
		{"--config none.toml", "^usftpd: cannot read the configuration none.toml: ", 1},
	} {
		got := run(t, dir, "", strings.Fields(c.args)...)
		if got.code != c.code || got.stdout != "" ||
			!regexp.MustCompile(c.says).MatchString(got.stderr) {
			t.Errorf("usftpd %s: %+v", c.args, got)
		}
	}
	for _, c := range []struct{ args, says string }{
		{"--help", `^\s+--metrics\[=address\]`}, {"help hash-password", "argon2id"},
		{"version", `^usftpd \S+.* go1\.\d+`}, {"--version", `^usftpd \S+.* go1\.\d+`},
		{"completion bash", "__start_usftpd"}, {"completion zsh", "#compdef usftpd"},
		{"completion fish", "complete -c usftpd"},
		{"completion powershell", "Register-ArgumentCompleter -CommandName 'usftpd'"},
		{"__complete --log-format j", "^json\n"},
		{"man", `\.TH USFTPD 8`},
	} {
		got := run(t, dir, "", strings.Fields(c.args)...)
		if got.code != 0 || !regexp.MustCompile("(?m)"+c.says).MatchString(got.stdout) {
			t.Errorf("usftpd %s: %+v", c.args, got)
		}
	}
}

// Help fits on a terminal of 80 columns.
func TestHelpFits(t *testing.T) {
	t.Parallel()
	root := commandLine(ui.NewApp("usftpd"))
	for _, cmd := range append(root.Commands(), root) {
		var b bytes.Buffer
		cmd.SetOut(&b)
		if err := cmd.Help(); err != nil || strings.Count(b.String(), "\n") < 3 {
			t.Errorf("help %s: %v, %q", cmd.Name(), err, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("help %s has a line of %d columns: %s", cmd.Name(), len(line)-1, line)
			}
		}
	}
}

// The man page in docs is what the program generates.
func TestManPage(t *testing.T) {
	t.Parallel()
	page := manPage(commandLine(ui.NewApp("usftpd")))
	if page != string(readFile(t, "../../../docs/usftpd.8")) {
		t.Error("docs/usftpd.8 is old: run `go -C service run ./cmd/usftpd man >docs/usftpd.8`")
	}
}
