package cp

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cli/opt"
	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/transfer"
)

// copyFlags is what the command line of cp says. The letters and their meanings are scp's, so that
// fingers need not learn.
type flags struct {
	opt.Connect
	opt.Tree
	opt.Report

	preserve, inplace, atomic, fsync bool
	recursive, legacy, ignore        bool
	through, fromFirst, agent        bool
	resume, verify, sparse, owners   bool
	hashes                           hashFlags
}

// register is the table of flags: parsing, help, completion and the man page come from it.
func (c *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	c.Connect.Register(f)
	c.registerCopying(f)
}

// registerCopying is the rest of the table.
func (c *flags) registerCopying(f *pflag.FlagSet) {
	f.BoolVarP(&c.preserve, "preserve", "p", false, "keep times and permissions")
	f.BoolVarP(&c.recursive, "recursive", "r", false, "copy directories with all that lies in them")
	f.StringVar(&c.Links, "links", "preserve", "with -r: `preserve`, follow or skip symbolic links")
	f.StringArrayVar(&c.Exclude, "exclude", nil, "with -r: do not copy what matches `pattern`, nor what lies in it; may be given several times")
	f.StringArrayVar(&c.Include, "include", nil,
		"with -r: copy only files that match `pattern`; may be given several times")
	f.BoolVarP(&c.DryRun, "dry-run", "n", false,
		"with -r: say on standard output what would be copied, and copy nothing")
	f.BoolVar(&c.StopOnError, "stop-on-error", false,
		"end at the first error; else what is left is copied all the same")
	c.RegisterBounds(f)
	f.BoolVarP(&c.Compress, "compress", "C", false,
		"compress (only with --ssh: our own SSH has no compression)")
	f.BoolVar(&c.resume, "resume", false, "go on from what an interrupted copy has left, as far as it is proved to be the same; with -r, pass over files whose copy has the same size and time")
	f.BoolVar(&c.verify, "verify", false, "compare what was stored with the source, by the host's hash or by reading it back, before it gets its name")
	c.hashes.register(f)
	f.BoolVar(&c.owners, "owners", false, "give copies the owner and group of what is copied, by number; it is an error where that is refused")
	f.BoolVar(&c.sparse, "sparse", false, "make holes of blocks of zeros in files written here; holes that local files have are kept in any case")
	f.BoolVar(&c.inplace, "inplace", false,
		"write the target itself instead of a temporary file that is renamed")
	f.BoolVar(&c.atomic, "atomic", false, "fail where the target can only be written in place")
	f.BoolVar(&c.fsync, "fsync", false,
		"have the data on the target's disk before it takes its name")
	c.Report.Register(f)
	f.BoolVarP(&c.through, "through", "3", false, "between two hosts copy through this machine, as is done in any case; names with a colon are then hosts' even where a local file is called so")
	f.BoolVarP(&c.agent, "forward-agent", "A", false,
		"no effect, as -s and -T have none (see docs/coming-from-scp.md)")
	f.VarP(&c.Tuning, "tune", "X", "nrequests=`n`: as many requests of a file in flight at most; buffer=n: data of a request in bytes at most (both follow from link and server)")
	f.BoolVarP(&c.fromFirst, "from-first", "R", false,
		"refused: between hosts the data comes through this machine (-3)")
	f.BoolVarP(&c.legacy, "scp", "O", false,
		"refused: usftp copies with SFTP, and not with the old protocol of scp")
	// Without a meaning here: -s asks for what is done in any case, and -T trusts names, which ours
	// need not.
	f.BoolVarP(&c.ignore, "sftp", "s", false, "")
	f.BoolVarP(&c.ignore, "no-strict-names", "T", false, "")
	for _, hidden := range []string{"sftp", "no-strict-names"} {
		f.Lookup(hidden).Hidden = true
	}
}

// onlyTrees are the flags that mean something with -r only.
var onlyTrees = []string{"links", "exclude", "include", "dry-run"}

func (c *flags) check(cmd *cobra.Command) error {
	var err error
	set := cmd.Flags().Changed
	switch {
	case c.inplace && c.resume:
		err = errors.New("--inplace and --resume exclude each other: what is written in place cannot be told from what was there before")
	case c.inplace && c.atomic:
		err = errors.New("--inplace and --atomic exclude each other")
	case !c.recursive && slices.ContainsFunc(onlyTrees, set):
		err = fmt.Errorf("--%s is for -r: give -r too, also for a single file",
			onlyTrees[slices.IndexFunc(onlyTrees, set)])
	case c.legacy:
		err = errors.New("-O asks for scp's old protocol, which usftp does not speak: it copies with SFTP; for a host without SFTP use scp -O")
	case c.fromFirst:
		err = errors.New("-R would have one host log in to the other; usftp logs in to both and copies through this machine, which is -3: leave -R out")
	}
	for _, check := range []func() error{
		func() error { return c.Connect.Check(set) },
		c.Tree.Check,
		func() error { return c.hashes.check(c.DryRun) },
	} {
		if err == nil {
			err = check()
		}
	}
	if err != nil {
		return &ui.UsageError{Command: cmd.CommandPath(), Err: err}
	}
	return nil
}

// transferOptions is how files are copied.
func (c *flags) transferOptions() transfer.Options {
	o := c.Connect.TransferOptions()
	o.Preserve, o.Owners, o.Sync, o.Sparse = c.preserve, c.owners, c.fsync, c.sparse
	o.Resume, o.Journal = c.resume, journalDirectory()
	o.Verify, o.Hash = c.verify, c.hashes.algorithm()
	switch {
	case c.inplace:
		o.Placement = transfer.InPlace
	case c.atomic:
		o.Placement = transfer.Atomic
	}
	return o
}

// journalDirectory is where interrupted copies note what they have left.
func journalDirectory() string {
	if state := opt.StateDirectory(); state != "" {
		return filepath.Join(state, "journal")
	}
	return ""
}
