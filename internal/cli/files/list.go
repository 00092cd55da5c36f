package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cli/opt"
	"github.com/usftp/usftp/internal/cli/verb"
)

// list is ls.
func list() *spec {
	var o verb.ListOptions
	var one, columns, byTime, bySize, unsorted bool
	var color string
	return &spec{
		use: "ls [flags] HOST:PATH...", short: "list directories", long: listLong,
		exits: `0 if all went well, 2 if an operand cannot be listed and for wrong usage, 1 if
something below an operand cannot, 255 if there is no connection to a host, and 128
plus the number of a signal that ended it.`,
		examples: `  usftp ls host:
  usftp ls -lh 'host:/var/log/*.gz'
  usftp ls -lRt user@host:/srv/www`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Long, "long", "l", false, "print modes, owners, sizes and times")
			f.BoolVarP(&o.All, "all", "a", false, "names that begin with a dot too, \".\" and \"..\"")
			f.BoolVarP(&o.AlmostAll, "almost-all", "A", false, "names that begin with a dot too")
			f.BoolVarP(&o.Recursive, "recursive", "R", false, "what lies in directories too")
			f.BoolVarP(&o.Human, "human-readable", "h", false, "with -l: sizes such as 1.5M")
			f.BoolVarP(&byTime, "time", "t", false, "sort by time, newest first")
			f.BoolVarP(&bySize, "size", "S", false, "sort by size, largest first")
			f.BoolVarP(&unsorted, "unsorted", "U", false, "do not sort")
			f.BoolVarP(&o.Reverse, "reverse", "r", false, "sort the other way round")
			f.BoolVarP(&o.Directory, "directory", "d", false, "directories themselves, not what they hold")
			f.BoolVarP(&o.Numeric, "numeric-uid-gid", "n", false, "like -l, with numbers of owners")
			f.BoolVarP(&o.Classify, "classify", "F", false, "append one of */=@| to names")
			f.BoolVarP(&o.Slash, "slash", "p", false, "append / to directories")
			f.BoolVarP(&one, "one", "1", false, "one name a line; the default if standard output is not a terminal")
			f.BoolVarP(&columns, "columns", "C", false, "names in columns; the default on a terminal")
			f.StringVar(&color, "color", "auto", "`when` to use colours: always, auto or never")
			f.Lookup("color").NoOptDefVal = "always"
			opt.Values(f, "color", "always", "auto", "never")
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
colours of LS_COLORS unless NO_COLOR is set, and control characters as \x1b and the
like.

SFTP has no link counts (a "?" is printed), no numbers of blocks (there is no
"total") and no inodes. Names of owners are printed if the server tells them
(OpenSSH 8.9 and newer do), otherwise their numbers.`
