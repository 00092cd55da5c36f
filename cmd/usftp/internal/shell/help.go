package shell

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/usftp/usftp/internal/ui"
)

const long = `Logs in to a host and runs commands there: list, copy, rename, remove, edit. The
commands are those of sftp, and some of lftp's. At a terminal, lines are edited with
the keys of Emacs and readline, kept in a history, and completed with Tab: commands,
names on the host, and local names. Ctrl-C stops the command, not the session.
Ctrl-Z suspends the session only while a command runs. Pasted lines run one by one, as
if they were typed. A lost connection is replaced, and you stay in the directory.

With -b, or if standard input is not a terminal, commands are read as sftp reads its
batch files: after a -, a command may fail without ending the batch; after an @, it is
not shown; # begins a comment. With -b, usftp asks nothing, and the first command that
fails ends the batch with exit code 1. Without -b, the session goes on after a command
that fails.

At a terminal, words are split as sh does: quote a space or another special character
with \, '...' or "...". In batches the rules are sftp's, where a backslash also counts
between single quotes. Patterns (* ? [a-z]) stand for names on the host, or for local
names in put. ~/ is the login directory.

With HOST:FILE instead of a directory, shell copies that file here, or to the local name
that follows, and exits, as sftp does.

Commands:`

const exits = `0 at the end of a session, even if commands failed; 1 if a command failed with -b, or
FILE could not be copied; 2 for wrong usage; 255 if the host could not be reached or the
connection was lost; 128 plus the number of the signal that ended usftp.`

const examples = `  usftp shell user@host:/var/www
  usftp shell -b nightly.batch backup
  usftp shell -D /usr/lib/openssh/sftp-server`

// help prints the commands.
func (s *shell) help(_ context.Context, r *request) error {
	if len(r.args) == 0 {
		_, err := io.WriteString(s.app.Out, commandList()+"\n")
		return err
	}
	var failed error
	for _, w := range r.args {
		c := find(w.text)
		if c == nil {
			failed = cmp.Or(failed, s.report(fmt.Errorf("unknown command %q", w.text)))
			continue
		}
		if _, err := io.WriteString(s.app.Out, c.help()); err != nil {
			return err
		}
	}
	return failed
}

// letters describes flags of commands that are not in package files.
var letters = map[byte]string{
	'a': "continue an interrupted copy, if what is there is its beginning",
	'f': "flush data to the target's disk",
	'l': "fail if NEW exists",
	'p': "keep times and permissions",
	'P': "the same as -p",
	'r': "copy directories and everything in them",
	'R': "the same as -r",
}

// help returns the output of `help COMMAND`.
func (c *command) help() string {
	text := fmt.Sprintf("%s\n    %s\n", c.usage(), c.text)
	if len(c.names) > 1 {
		text += "    other names: " + strings.Join(c.names[1:], ", ") + "\n"
	}
	for _, letter := range []byte(c.flags) {
		text += fmt.Sprintf("  -%c    %s\n", letter, letters[letter])
	}
	if c.long != nil {
		text += "\n" + c.long()
	}
	return text
}

// commandList returns the table as help and the man page show it.
func commandList() string {
	var b strings.Builder
	for i := range commands {
		c := &commands[i]
		ui.WriteColumn(&b, 28, c.usage(), c.text)
	}
	return strings.TrimRight(b.String(), "\n")
}
