package sync

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/hosts"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/verb"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/transfer"
)

// flags is the command line of sync. Flags with the meaning of one of rsync's have its name.
type flags struct {
	opt.Connect
	opt.Tree
	opt.Report
	opt.Copying

	checksum, sizeOnly       bool
	existing, ignoreExisting bool
	delete, noLock, watch    bool
	maxDelete                int64
	backupDir, ignoreFile    string
	window                   int
	minSize, maxSize         int64
	newer                    time.Time
	hosts                    hosts.Flags
}

// register adds the flags: parsing, help, completion and the man page come from this table.
func (c *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	c.Connect.RegisterRsync(f)
	f.BoolVarP(&c.DryRun, "dry-run", "n", false,
		"print what would be done, one line each, and do nothing; -v adds why")
	f.BoolVar(&c.checksum, "checksum", false,
		"compare contents instead of times: by the host's hashes, or by reading the files if it has none")
	f.BoolVar(&c.sizeOnly, "size-only", false,
		"compare only sizes: a file of the same size is not copied, but gets SRC's time")
	f.BoolVar(&c.NoTimes, "no-times", false,
		"neither set nor compare times: files of the same size count as equal, unless --checksum compares contents")
	f.BoolVar(&c.NoPerms, "no-perms", false, "neither set nor compare permissions")
	f.IntVar(&c.window, "modify-window", 0, "treat times that differ by up to `n` seconds as equal")
	f.BoolVarP(&c.Update, "update", "u", false, "skip files that are newer in DST")
	f.BoolVar(&c.existing, "existing", false, "copy only what DST already has")
	f.BoolVar(&c.ignoreExisting, "ignore-existing", false, "copy only what DST does not have")
	opt.SizeVar(f, &c.minSize, "min-size", "copy only files of at least `size`, such as 10k or 5MiB")
	opt.SizeVar(f, &c.maxSize, "max-size", "copy only files of at most `size`")
	f.Func("newer",
		"copy only files modified since `time`: 2026-01-31, 2026-01-31T12:00:00, or an age such as 36h or 7d",
		func(text string) (err error) {
			c.newer, err = parseMoment(text)
			return err
		})
	c.Copying.Register(f)
	c.RegisterFilter(f, "neither copy nor delete what matches `pattern`, or anything below it")
	f.StringVar(&c.ignoreFile, "ignore-file", "",
		"neither copy nor delete what files of this `name` in SRC, such as .gitignore, exclude by git's rules")
	f.BoolVar(&c.delete, "delete", false,
		"delete what SRC does not have, once everything has been copied without an error; what is excluded stays")
	f.Int64Var(&c.maxDelete, "max-delete", 0,
		"delete nothing if more than `n` files would go (default: half of DST, or 10 if that is more)")
	f.StringVar(&c.backupDir, "backup-dir", "",
		"keep what is deleted or replaced in `directory`, which is inside DST and not a link")
	f.BoolVar(&c.watch, "watch", false,
		"keep running, and copy what changes in SRC as it changes; SRC must be local")
	f.BoolVar(&c.noLock, "no-lock", false, "do not use a lock file to keep other runs out of DST")
	f.StringVar(&c.Links, "links", "preserve",
		"`how` to treat symbolic links: preserve, follow or skip")
	cmdline.Values(f, "links", "preserve", "follow", "skip")
	c.RegisterKeepDirLinks(f, "")
	f.BoolVar(&c.Owners, "owners", false, "set owner and group, by number; fail if the target refuses")
	c.Delta.Register(f)
	f.BoolVar(&c.Verify, "verify", false,
		"compare what was stored with the source, by the host's hash or by reading it back")
	f.BoolVar(&c.Fsync, "fsync", false, "flush data to the target's disk before renaming")
	f.BoolVar(&c.StopOnError, "stop-on-error", false,
		"stop at the first error instead of copying the rest")
	c.RegisterBounds(f)
	c.hosts.Register(f)
	c.Report.Register(f)
	c.registerHabits(f)
}

// check checks the flags; set reports whether one was given.
func (c *flags) check(set func(name string) bool) error {
	switch {
	case c.existing && c.ignoreExisting && !c.delete:
		return errors.New("--existing with --ignore-existing copies nothing: it needs --delete")
	case !c.delete && set("max-delete"):
		return errors.New("--max-delete needs --delete")
	case set("max-delete") && c.maxDelete < 1:
		return errors.New("--max-delete must be at least 1; without --delete nothing is deleted")
	case set("backup-dir") && (!filepath.IsLocal(c.backupDir) ||
		filepath.Clean(c.backupDir) == "."):
		return fmt.Errorf("--backup-dir %s: must be a path in DST, such as .old", c.backupDir)
	case set("ignore-file") && (c.ignoreFile == "" || c.ignoreFile != filepath.Base(c.ignoreFile)):
		return fmt.Errorf("--ignore-file %q: must be the name of a file, such as .gitignore",
			c.ignoreFile)
	case c.watch && c.DryRun:
		return errors.New("--watch and --dry-run cannot be combined")
	case c.checksum && c.sizeOnly:
		return errors.New("--checksum and --size-only cannot be combined")
	case c.delete && c.Listed():
		return errors.New("--delete and --files-from cannot be combined: what the list leaves out would look as if SRC did not have it")
	case c.delete && c.RemovesSource():
		return errors.New("--delete and --remove-source-files cannot be combined: the next run would delete what this one has moved")
	case c.watch && (c.Listed() || c.RemovesSource() || c.HasMinAge()):
		return errors.New("--watch cannot be combined with --files-from, --remove-source-files or --min-age")
	case c.watch && c.hosts.Given():
		return errors.New("--watch is for one host")
	case c.window < 0:
		return errors.New("--modify-window must not be negative")
	case c.maxSize > 0 && c.minSize > c.maxSize:
		return errors.New("--min-size is larger than --max-size")
	case set("max-size") && c.maxSize == 0:
		return errors.New("--max-size 0 would copy nothing")
	}
	return cmp.Or(c.Connect.Check(set), c.hosts.Check(set), c.Copying.Check(set, c.Links),
		c.Tree.Check())
}

func (c *flags) syncOptions() transfer.SyncOptions {
	o := transfer.SyncOptions{TreeOptions: c.TreeOptions(), Checksum: c.checksum,
		SizeOnly: c.sizeOnly, ModifyWindow: time.Duration(c.window) * time.Second,
		Only: transfer.SyncOnly{
			MinSize: c.minSize, MaxSize: c.maxSize, Newer: c.newer,
			Existing: c.existing, IgnoreExisting: c.ignoreExisting},
		Delete: c.delete, MaxDelete: c.maxDelete, BackupDir: c.backupDir, NoLock: c.noLock,
		IgnoreFile: c.ignoreFile}
	o.Options = c.TransferOptions()
	c.Copying.Apply(&o.Options)
	c.ApplyTree(&o.TreeOptions)
	return o
}

// parseMoment parses a time, or an age.
func parseMoment(text string) (time.Time, error) {
	if when, err := verb.ParseDate(text); err == nil {
		return when, nil
	}
	age, err := opt.ParseAge(text)
	if err != nil {
		return time.Time{}, errors.New(
			"must be a date, a date and a time, or an age such as 36h or 7d")
	}
	return time.Now().Add(-age), nil
}
