package cp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/hosts"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/transfer"
)

// flags is the command line of cp. The letters and their meanings are scp's, so that users need not
// relearn them.
type flags struct {
	opt.Connect
	opt.Tree
	opt.Report
	opt.Copying

	preserve, inplace, atomic, exactly bool
	recursive, archive, old, ignore    bool
	through, fromFirst, agent          bool
	resume, sparse                     bool
	hashes                             hashFlags
	hosts                              hosts.Flags
	patience                           time.Duration
}

// register adds the flags: parsing, help, completion and the man page come from this table.
func (c *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	c.Connect.Register(f)
	c.registerCopying(f)
}

// registerCopying adds the rest of the table.
func (c *flags) registerCopying(f *pflag.FlagSet) {
	f.BoolVarP(&c.preserve, "preserve", "p", false,
		"keep times and permissions, but not files' setuid and setgid bits")
	f.BoolVar(&c.NoTimes, "no-times", false,
		"do not set times, with -r or -p, and do not warn of hosts that set none")
	f.BoolVar(&c.NoPerms, "no-perms", false,
		"do not set permissions with -p, and do not warn of hosts that set none")
	f.BoolVarP(&c.recursive, "recursive", "r", false, "copy directories and everything in them")
	f.BoolVarP(&c.exactly, "no-target-directory", "T", false,
		"copy to DST itself, even if it is a directory: with -r, merge with it instead of copying into it")
	f.StringVar(&c.Links, "links", "preserve",
		"with -r: `how` to treat symbolic links: preserve, follow or skip")
	cmdline.Values(f, "links", "preserve", "follow", "skip")
	c.Copying.Register(f)
	c.RegisterKeepDirLinks(f, "with -r: ")
	c.RegisterFilter(f, "with -r: leave out what matches `pattern`, and everything below it")
	f.BoolVarP(&c.DryRun, "dry-run", "n", false,
		"print what would be copied, and copy nothing")
	f.BoolVarP(&c.Update, "update", "u", false,
		"skip files that DST has already and that are not older there")
	f.BoolVar(&c.StopOnError, "stop-on-error", false,
		"stop at the first error instead of copying the rest")
	c.RegisterBounds(f)
	f.BoolVar(&c.resume, "resume", false,
		"continue an interrupted copy, after proving that what is there is the beginning of SRC; with -r, skip files whose copy has the same size and time")
	f.BoolVar(&c.Verify, "verify", false,
		"before renaming, compare what was stored with the source, by the host's hash or by reading it back")
	c.hashes.register(f)
	f.BoolVar(&c.Owners, "owners", false,
		"keep owner and group, by number; fail if the target refuses")
	c.Delta.RegisterOptional(f)
	f.BoolVar(&c.sparse, "sparse", false,
		"turn blocks of zeros into holes in local files; holes in local sources are always kept")
	f.BoolVar(&c.inplace, "inplace", false,
		"write directly to the target instead of renaming a temporary file")
	f.BoolVar(&c.atomic, "atomic", false, "fail if the target can only be written in place")
	f.BoolVar(&c.Fsync, "fsync", false,
		"flush data to the target's disk before renaming")
	c.hosts.Register(f)
	f.DurationVar(&c.patience, "patience", transfer.DefaultPatience,
		"with --hosts and a stream as the source: give up on a host once the others have waited for it for this `time`")
	c.Report.Register(f)
	f.BoolVarP(&c.through, "through", "3", false,
		"copy between two hosts through this machine, as usftp always does; names with a colon are then remote even if a local file has that name")
	f.BoolVarP(&c.agent, "forward-agent", "A", false,
		"ignored, like -s; see docs/coming-from-scp.md")
	c.Tuning.Register(f)
	f.BoolVarP(&c.fromFirst, "from-first", "R", false,
		"refused: data between hosts passes through this machine (-3)")
	f.BoolVarP(&c.old, "scp", "O", false,
		"use scp's old protocol, for a device that has no SFTP")
	// No effect here: -s requests the default.
	f.BoolVarP(&c.ignore, "sftp", "s", false, "")
	// Habits of users of cp and rsync.
	f.BoolVarP(&c.archive, "archive", "a", false, "")
	f.BoolVarP(&c.ignore, "force", "f", false, "")
	f.BoolVar(&c.ignore, "progress", false, "")
	for _, name := range []string{"sftp", "archive", "force", "progress"} {
		f.Lookup(name).Hidden = true
	}
}

// onlyTrees are the flags that make sense only with -r.
var onlyTrees = []string{"links", "keep-dirlinks", "exclude", "include", "exclude-from", "min-age"}

// check checks the flags; set reports whether one was given.
func (c *flags) check(set func(name string) bool) error {
	if c.archive {
		c.recursive, c.preserve = true, true
	}
	tree := slices.IndexFunc(onlyTrees, set)
	switch {
	case c.inplace && c.resume:
		return errors.New("--inplace and --resume cannot be combined: data written in place cannot be told apart from older data")
	case c.Update && c.DryRun:
		return errors.New("--update and --dry-run cannot be combined: what DST has is not looked at; sync can (-nu)")
	case c.inplace && c.atomic:
		return errors.New("--inplace and --atomic cannot be combined")
	case !c.recursive && !c.Listed() && tree >= 0:
		return fmt.Errorf("--%s needs -r, even for a single file", onlyTrees[tree])
	case c.patience <= 0:
		return errors.New("--patience must be a time such as 30s or 1h")
	case c.old && c.hosts.Given():
		return errors.New("-O cannot be used with --hosts")
	case c.fromFirst:
		return errors.New("-R is not supported: usftp logs in to both hosts and copies through this machine (-3); leave out -R")
	}
	return cmp.Or(c.Connect.Check(set), c.hosts.Check(set), c.Copying.Check(set, c.Links),
		c.Tree.Check(), c.hashes.check(set, c.DryRun))
}

var errListed = errors.New("--files-from needs exactly one SRC, the directory that holds what is listed, and cannot be used with -")

// checkPlaces refuses flags that do not go with the operands.
func (c *flags) checkPlaces(sources []connect.Place, target connect.Place) error {
	stream := target.Stream || slices.ContainsFunc(sources,
		func(s connect.Place) bool { return s.Stream })
	switch {
	case c.Listed() && (len(sources) > 1 || stream):
		return errListed
	case c.RemovesSource() && stream:
		return errors.New("--remove-source-files cannot be used with -")
	case c.hashes.manifest != "" && target.Stream:
		return errors.New("--manifest cannot be used with the target -, which is not a file")
	case c.exactly && (len(sources) > 1 || target.Stream):
		return errors.New("-T needs exactly one source, and a target other than -")
	case c.JSON && target.Stream:
		return errors.New("--json writes to standard output and cannot be used with the target -")
	case c.DryRun && (target.Stream || sources[0].Stream):
		return errors.New("--dry-run cannot be used with -")
	}
	return nil
}

// transferOptions returns the options for copying files.
func (c *flags) transferOptions() transfer.Options {
	o := c.Connect.TransferOptions()
	c.Copying.Apply(&o)
	o.Preserve, o.Sparse, o.Resume = c.preserve, c.sparse, c.resume
	o.NoTargetDirectory, o.Hash = c.exactly || c.Listed(), c.hashes.algorithm()
	switch {
	case c.inplace:
		o.Placement = transfer.PlaceDirect
	case c.atomic:
		o.Placement = transfer.PlaceAtomic
	}
	return o
}
