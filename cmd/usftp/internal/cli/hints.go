package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/sync"
)

// flagHints are the replacements for flags that a command's namesakes have and it does not, or that
// another tool has, for the commands that they name.
var flagHints = []struct{ commands, names, text string }{
	{"cp", "L dereference copy-links", "use --links follow"},
	{"cp", "d no-dereference", "with -r links are copied as links"},
	{"cp", "z", "use -C"},
	{"cp", "e rsh", "use --ssh"},
	{"cp", "bwlimit", "use --limit"},
	{"cp", "partial append append-verify partial-dir", "use --resume"},
	{"cp", "parents", "use --files-from"},
	{"cp", "W whole-file", "files are sent whole unless --delta is given"},
	{"cp", "no-clobber", "use `usftp sync --ignore-existing`"},
	{"cp", "existing ignore-existing size-only checksum max-size min-size newer delete max-delete backup-dir ignore-file watch",
		"`usftp sync` has it"},
	{"cp", "b backup suffix", "use `usftp sync --backup-dir`"},
	{"cp", "interactive", "-n shows what would be copied"},
	{"cp", "reflink", "local files share blocks where the file system can"},
	{"cp", "remove-destination", "files are replaced, not written to, without it"},
	{"cp", "chown", "use --owners, or `usftp chown` afterwards"},
	{"cp", "info stats", "a terminal shows the progress"},
	{"cp", "log-file", "use --json"},
	{"cp", "x one-file-system", "use --exclude: SFTP does not say where a file system begins"},
	{"du rm", "x one-file-system", "SFTP does not say where a file system begins"},
	{"cp sync", "transfers checkers multi-thread-streams",
		"as much as the link holds is in flight without it"},
	{"cp mv ln", "t target-directory", "the last operand is the target"},
	{"cp mv", "strip-trailing-slashes", "a slash at the end means nothing"},
	{"mv", "u update b backup S suffix", "-n replaces nothing"},
	{"mv", "r R recursive", "directories are moved without it"},
	{"ln", "r relative", "write TARGET as seen from the link's directory"},
	{"rm", "I", "use -i"},
	{"rm", "preserve-root no-preserve-root", "/ is never removed"},
	{"rmdir", "r R recursive", "use `usftp rm -r`"},
	{"touch", "no-dereference", "links are followed"},
	{"touch", "r reference", "use -d with a time that `usftp stat` prints"},
	{"touch", "time", "use -a or -m"},
	{"chmod", "H L no-dereference", "operands that are links are followed, those below a directory left alone"},
	{"chmod chown", "c changes", "use -v"},
	{"chmod chown", "f silent", "use 2>/dev/null"},
	{"chmod chown", "reference", "`usftp stat` prints what to give instead"},
	{"chown", "from", "use `usftp find -user` with -exec"},
	{"ls", "v", "names are not sorted by version; --verbose says how usftp connects"},
	{"ls", "c", "SFTP has no time of the last change"},
	{"ls", "u full-time time-style T", "`usftp stat` prints all times, and --json exact ones"},
	{"ls", "L H dereference", "use `usftp stat -L`"},
	{"ls", "s blocks inode", "SFTP has nothing for it"},
	{"ls", "sort X group-directories-first", "use -t, -S or -U"},
	{"ls", "f", "use -aU"},
	{"ls", "g", "use -l"},
	{"ls", "I ignore hide", "use `usftp find` with -not -name"},
	{"ls", "Q b q N quote-name escape", "use --json for exact names"},
	{"cat", "A b e E t T v show-all", "pipe into plain cat"},
	{"tail", "retry", "use -F"},
	{"tail", "pid", "use `timeout`, or end usftp"},
	{"stat", "f file-system", "use `usftp df`"},
	{"stat", "t terse", "use -c, or --json"},
	{"df", "T print-type t type x exclude-type", "SFTP does not say what kind of file system it is"},
	{"df", "H si m block-size", "use -h, or --json for bytes"},
	{"du", "si m block-size", "use -h, or -b for bytes"},
	{"du", "exclude", "use `usftp find` with -printf %s"},
	{"du", "L D H dereference", "links are not followed"},
	{"ln", "b backup S suffix", "without -f nothing is replaced"},
	{"rmdir", "ignore-fail-on-non-empty", "directories that are not empty stay, and are named"},
	{"mount", "d debug", "use -f -vv"}, // and the rest of sshfs's
	{"mount", "s", "requests always run concurrently"},
	{"mount", "1", "there is only version 2 of SSH"},
	{"mount", "p", "use -P"},
}

// flagHint returns the replacement for a flag that a command does not have, or "".
func flagHint(cmd *cobra.Command, name string) string {
	if cmd.Name() == "sync" {
		if hint := sync.RsyncHint(name); hint != "" {
			return hint
		}
	}
	for _, hint := range flagHints {
		if slices.Contains(strings.Fields(hint.commands), cmd.Name()) &&
			slices.Contains(strings.Fields(hint.names), name) {
			return hint.text
		}
	}
	long := map[string]string{"F": "config", "i": "identity", "J": "jump", "o": "option",
		"P": "port", "D": "server", "S": "program"}[name]
	if long != "" && cmd.Flags().Lookup(long) != nil {
		return "use --" + long
	}
	return ""
}
