package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/verb"
	"github.com/usftp/usftp/internal/cmdline"
)

// list returns ls.
func list() *spec {
	var o verb.ListOptions
	var one, columns, byTime, bySize, unsorted bool
	var color string
	return &spec{
		use: "ls [flags] HOST:PATH...", short: "list directories", long: listLong,
		exits: `0 on success; 2 for wrong usage, or if an operand cannot be listed; 1 if something below
an operand cannot be listed; 255 if a host could not be reached; 128 plus the number of
the signal that ended usftp.`,
		examples: `  usftp ls host:
  usftp ls -lh 'host:/var/log/*.gz'
  usftp ls -lRt user@host:/srv/www`,
		usageCode: 2, least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Long, "long", "l", false, "print mode, owner, size and time of each file")
			f.BoolVarP(&o.All, "all", "a", false,
				"list names that begin with a dot too, and . and ..")
			f.BoolVarP(&o.AlmostAll, "almost-all", "A", false,
				"list names that begin with a dot too, but not . and ..")
			f.BoolVarP(&o.Recursive, "recursive", "R", false, "list subdirectories recursively")
			f.BoolVarP(&o.Human, "human-readable", "h", false, "with -l, print sizes such as 1.5M")
			f.BoolVarP(&byTime, "time", "t", false, "sort by time, newest first")
			f.BoolVarP(&bySize, "size", "S", false, "sort by size, largest first")
			f.BoolVarP(&unsorted, "unsorted", "U", false, "do not sort")
			f.BoolVarP(&o.Reverse, "reverse", "r", false, "reverse the order")
			f.BoolVarP(&o.Directory, "directory", "d", false,
				"list directories themselves, not their contents")
			f.BoolVarP(&o.Numeric, "numeric-uid-gid", "n", false,
				"like -l, with numeric user and group IDs")
			f.BoolVarP(&o.Classify, "classify", "F", false,
				"append one of */=@| to names, depending on their type")
			f.BoolVarP(&o.Slash, "slash", "p", false, "append / to directories")
			f.BoolVarP(&one, "one", "1", false,
				"list one name per line; the default unless standard output is a terminal")
			f.BoolVarP(&columns, "columns", "C", false,
				"list names in columns; the default on a terminal")
			f.StringVar(&color, "color", "auto", "colour names: `when` is always, auto or never")
			f.Lookup("color").NoOptDefVal = "always"
			cmdline.Values(f, "color", "always", "auto", "never")
		},
		take: func(f *pflag.FlagSet, args []string) ([]string, error) {
			switch {
			case color != "auto" && color != "always" && color != "never":
				return nil, fmt.Errorf("--color=%s: must be always, auto or never", color)
			case byTime && bySize || byTime && unsorted || bySize && unsorted:
				return nil, errors.New("-t, -S and -U cannot be combined")
			case byTime:
				o.Sort = verb.SortByTime
			case bySize:
				o.Sort = verb.SortBySize
			case unsorted:
				o.Sort = verb.SortNone
			}
			o.Long = o.Long || o.Numeric
			return args, nil
		},
		run: func(ctx context.Context, env *verb.Env, names []string) error {
			o.Columns = columns || env.Terminal && !one
			env.Colors = verb.ColorsFor(color, env.Terminal)
			return verb.List(ctx, env, o, names)
		},
	}
}

const listLong = `Lists directories on hosts, as ls does. Names are sorted by their bytes, and times are
in this machine's time zone. On a terminal names are printed in columns, with the
colours of LS_COLORS unless NO_COLOR is set; control characters are shown as \x1b and
the like.

SFTP has no link counts ("?" is printed instead), block counts (so there is no "total"
line) or inode numbers. Owners are printed by name if the server sends names (OpenSSH
8.9 and newer), and by number otherwise.`
