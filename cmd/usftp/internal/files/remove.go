package files

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/verb"
)

// remove returns rm.
func remove() *spec {
	var o verb.RemoveOptions
	var upper bool
	return &spec{
		use: "rm [flags] HOST:PATH...", short: "remove files and directories", long: removeLong,
		examples: `  usftp rm 'host:tmp/*.o'
  usftp rm -r host:old-photos`,
		least: 1, acts: true,
		again: func() (ok, changes bool) { return !o.Interactive, true },
		none:  func() bool { return o.Force },
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Recursive, "recursive", "r", false,
				"remove directories and their contents; -R is the same")
			f.BoolVarP(&upper, "R", "R", false, "")
			f.Lookup("R").Hidden = true
			choice(f, "force", "f", "ignore files that do not exist, and never ask",
				func(on bool) { o.Force, o.Interactive = on, o.Interactive && !on })
			choice(f, "interactive", "i", "ask before each removal; the last of -f and -i counts",
				func(on bool) { o.Interactive, o.Force = on, o.Force && !on })
			f.BoolVarP(&o.Directories, "dir", "d", false, "remove empty directories")
		},
		run: func(ctx context.Context, env *verb.Env, names []string) error {
			o.Recursive = o.Recursive || upper
			return verb.Remove(ctx, env, o, names)
		},
	}
}

const removeLong = `Removes files on hosts, as rm does. Symbolic links are removed, never followed. A path
that ends in a slash must be a directory; anything else is left alone. "/", an empty
path, and paths that end in "." or ".." are refused, even with -f.

Unlike rm, usftp asks only with -i, not because a file is write-protected. It removes
many files at once; it reports what it cannot remove, and removes the rest.

If somebody replaces a directory by a link while it is being removed, SFTP has no way to
keep the server from following the link.`
