package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// flagHints are the replacements for flags that a command's namesakes have and it does not, or that
// another tool has, for the commands that they name: sync's are rsync's.
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
	{"sync", "rsync-path M remote-option", "--sftp-server names another server"},
	{"sync", "C cvs-exclude", "use --ignore-file .gitignore; -z compresses"},
	{"sync", "f filter include-from", "use --exclude, --include and --exclude-from"},
	{"sync", "L copy-links", "use --links follow"},
	{"sync", "safe-links", "use --links skip"},
	{"sync", "itemize-changes", "use -v, or -nv for a dry run"},
	{"sync", "g owner group numeric-ids", "use --owners"},
	{"sync", "chown usermap groupmap", "use --owners, or `usftp chown -R` afterwards"},
	{"sync", "x one-file-system", "use --exclude: SFTP does not say where a file system begins"},
	{"sync", "R relative no-implied-dirs", "name the directory in DST, as in sync a/b host:a/b --mkpath"},
	{"sync", "inplace T temp-dir", "files are replaced once they are complete; `usftp cp --inplace` writes in place"},
	{"sync", "link-dest compare-dest copy-dest", "--backup-dir keeps what is replaced or deleted"},
	{"sync", "d dirs", "use --exclude='/*/*'"},
	{"sync", "list-only", "use `usftp ls -lR`"},
	{"sync", "k copy-dirlinks", "use --links follow, which copies what any link leads to"},
	{"sync", "m prune-empty-dirs", "`usftp find` with -type d -empty -delete removes them afterwards"},
	{"sync", "y fuzzy", "a file is compared with its old version only"},
	{"sync", "E executability", "permissions are made equal without it"},
	{"sync", "O omit-dir-times", "--no-times leaves the times of files and directories alone"},
	{"sync", "8 8-bit-output", "names are printed as they are"},
	{"sync", "delete-excluded", "`usftp rm -r` removes what is excluded"},
	{"sync", "force", "--delete also removes directories where SRC has files"},
	{"sync", "ignore-errors", "nothing is deleted unless everything was copied"},
	{"sync", "s protect-args secluded-args old-args", "names need no quoting"},
	{"sync", "stop-after stop-at time-limit", "use timeout(1): the next run continues"},
	{"sync", "block-size checksum-choice cc", "leave it out"},
	{"sync", "password-file", "use a key or an agent"},
	{"sync", "daemon", "use `usftp serve`, or usftpd"},
	{"sync", "compress-level compress-choice zc zl skip-compress old-compress new-compress", "use -z"},
	{"sync", "no-links no-l", "use --links skip"},
	{"sync", "no-D no-devices no-specials", "they are never copied"},
	{"sync", "debug msgs2stderr", "use -vv"},
	{"sync", "limit", "-l limits the speed, as with scp; in rsync it is about links, which are always copied"},
	{"sync", "del delete-before delete-during delete-delay delete-after", "use --delete, which deletes last"},
	{"sync", "b backup suffix", "use --backup-dir"},
	{"sync", "append append-verify partial-dir no-whole-file no-W", "large files are continued, and only what has changed is sent, without a flag"},
	{"sync", "I ignore-times", "use --checksum"},
	{"sync", "ignore-non-existing", "use --existing"},
	{"sync", "info", "a terminal shows the progress"},
	{"sync", "out-format log-file", "use --json"},
	{"sync", "timeout", "a host that stalls is left after a minute"},
	{"sync", "contimeout", "use -o ConnectTimeout="},
	{"sync", "H hard-links A acls X xattrs U atimes N crtimes devices specials", "SFTP has nothing for it"},
}

// flagHint returns the replacement for a flag that a command does not have, or "".
func flagHint(cmd *cobra.Command, name string) string {
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
