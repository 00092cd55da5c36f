package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/usftp/usftp/transfer"
)

func (a *app) copyCommand() *cobra.Command {
	var flags copyFlags
	cmd := &cobra.Command{
		Use:                   "cp [flags] SRC... DST",
		Short:                 "copy files to hosts, from hosts, and here",
		Long:                  copyLong,
		Example:               copyExamples,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.check(cmd); err != nil {
				return err
			}
			sources, target, err := parsePlaces(args, flags.through)
			if err == nil && flags.hashes.manifest != "" && target.stream {
				err = errors.New("--manifest lists files, and the target - is none")
			}
			if err == nil && flags.json && target.stream {
				err = errors.New("--json writes to standard output, and so cannot go with the target -")
			}
			if err == nil && flags.dryRun && (target.stream || sources[0].stream) {
				err = errors.New("--dry-run is for files and directories, and - is neither")
			}
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return a.copy(cmd.Context(), &flags, sources, target)
		},
	}
	flags.register(cmd.Flags())
	return cmd
}

func (a *app) copy(ctx context.Context, flags *copyFlags, sources []place, target place) error {
	if !target.remote && !slices.ContainsFunc(sources, func(p place) bool { return p.remote }) {
		tuneLocal()
	}
	config := flags.dialConfig(a)
	if flags.agent {
		config.Logger.Info("-A has no effect: nothing runs on the hosts that would need the agent; both are logged in to from here")
	}
	if flags.compress && config.SSH == "" {
		config.Logger.Info("-C has no effect: our own SSH has no compression; --ssh has")
	}
	lists, err := flags.hashes.open()
	if err != nil {
		return err
	}
	defer lists.close()
	if flags.dryRun {
		var stop context.CancelCauseFunc
		ctx, stop = context.WithCancelCause(ctx)
		defer stop(nil)
		a.out.stopWhenLost(stop)
	}
	options := flags.transferOptions()
	options.List = lists.check
	connect := transfer.ConnectConfig{Dial: config, Connections: flags.connections,
		Streams: flags.streams, Client: flags.clientOptions()}
	c := a.newCopier(ctx, connect, options, a.reporter(flags, target))
	c.options.Events = lists.listen(c.options.Events)
	c.stops = flags.stopOnError
	defer c.hosts.close()
	if flags.recursive {
		defer runtime.KeepAlive(tuneTree(slices.ContainsFunc(sources,
			func(p place) bool { return p.remote })))
		options := flags.treeOptions()
		c.tree = &options
	}
	if target.remote && flags.limit == 0 {
		c.hosts.config.Expected = largest(sources)
	}
	c.askAhead(sources, target)
	c.copy(sources, target)
	c.sayHowToGoOn()
	c.finishLists(&lists)
	c.report.end(c.code)
	if flags.verbose >= 2 {
		a.console.say("at most " + peakMemory() + " of memory were used")
	}
	if c.code != exitOK {
		return &exitError{c.code}
	}
	return nil
}

// askAhead tells the hosts' connections what will be asked first, where that is known: of one host,
// and one source.
func (c *copier) askAhead(sources []place, target place) {
	if len(sources) != 1 || sources[0].remote == target.remote {
		return
	}
	p := target
	if !target.remote {
		p = sources[0]
	}
	name := p.path()
	switch {
	case strings.HasPrefix(p.target.Path, "~"), !target.remote && strings.ContainsAny(p.target.Path, `*?[\`): // other questions come first
	case target.remote && name == "":
		c.hosts.config.Look = "."
	case target.remote, c.tree != nil:
		c.hosts.config.Look = name
	default:
		c.hosts.config.Source = name
	}
}

// largest returns how many bytes the largest of the sources has that are files.
func largest(sources []place) (size int64) {
	for _, s := range sources {
		if s.remote || s.stream {
			continue
		}
		if info, err := os.Stat(s.path()); err == nil && info.Mode().IsRegular() {
			size = max(size, info.Size())
		}
	}
	return size
}

// A copier copies files, and tells a reporter how that goes.
type copier struct {
	*app
	ctx     context.Context
	hosts   *hosts
	options transfer.Options
	tree    *transfer.TreeOptions // nil where directories are not copied
	report  reporter
	code    int  // of the first failure
	goesOn  bool // --resume would go on from what is left
	stops   bool // at the first failure
	untried int  // files, since a connection was lost for good
}

func (a *app) newCopier(ctx context.Context, config transfer.ConnectConfig,
	options transfer.Options, report reporter) *copier {
	options.Events = report.event
	return &copier{app: a, ctx: ctx, hosts: newHosts(config), options: options, report: report}
}

// fail tells a failure that is no job's.
func (c *copier) fail(err error) {
	c.note(err)
	if !errors.As(err, new(*outputError)) {
		c.report.failed(err)
	}
}

// note keeps the code of the first failure; a signal's wins over all.
func (c *copier) note(err error) {
	c.goesOn = c.goesOn || c.canGoOn(err)
	switch {
	case errors.Is(err, transfer.ErrTreeTooLarge):
		c.console.say("--max-entries allows more, and with 0 any number")
	case errors.Is(err, transfer.ErrTreeTooDeep):
		c.console.say("--max-depth allows more levels, and with 0 any depth")
	}
	if signal := interrupted(c.ctx); signal != nil {
		c.code = signal.code()
	} else if c.code == exitOK {
		c.code = codeOf(err)
	}
}

// copy copies the sources to the target.
func (c *copier) copy(sources []place, target place) {
	// The names that globs stand for must be known before the target's form can be judged: several
	// files want a directory.
	var files []file
	c.connectBoth(sources, target)
	target = c.atHome(target)
	for _, s := range sources {
		found, err := c.expand(s)
		if err != nil {
			c.fail(err)
			if c.over() {
				return
			}
			continue
		}
		files = append(files, found...)
	}
	several := len(sources) > 1 || len(files) > 1
	if several && len(files) > 0 && !target.stream {
		if err := c.wantDirectory(target); err != nil {
			c.fail(err)
			return
		}
	}
	for _, f := range files {
		if c.over() {
			return
		}
		c.copyFile(f, target, several)
	}
	if c.untried > 0 && c.ctx.Err() == nil {
		c.report.failed(fmt.Errorf("%s not tried: the connection was lost",
			count(int64(c.untried), "further source was", "further sources were")))
	}
}

// connectBoth logs in to the hosts of a copy from one to another side by side: to be at both takes
// as long as to be at the farther one.
func (c *copier) connectBoth(sources []place, target place) {
	i := slices.IndexFunc(sources, func(s place) bool { return s.remote })
	if !target.remote || i < 0 {
		return
	}
	from, to := sources[i].target, target.target
	if from.Path, to.Path = "", ""; from != to {
		c.hosts.connectAll(c.ctx, from, to)
	}
}

// over tells whether nothing more is to be copied.
func (c *copier) over() bool { return c.ctx.Err() != nil || c.stops && c.code != exitOK }

// A file is one source, after patterns were expanded.
type file struct {
	place
	path string
	name string // what the copy is called, where that is not the last element of path
}

// copyFile runs one job. The job's own events tell how it went.
func (c *copier) copyFile(f file, target place, several bool) {
	if f.name != "" && !target.stream && (several || c.wantDirectory(target) == nil) {
		target.typed = filepath.Join(target.typed, f.name)
		target.target.Path = path.Join(target.target.Path, f.name)
		several = false
	}
	job := transfer.Job{Source: f.path, Target: target.path(), Direction: transfer.Download,
		Options: c.options}
	var ok bool
	switch {
	case f.remote && target.remote:
		job.Direction = transfer.Relay
		if job.From, ok = c.host(f.place); !ok {
			return
		}
		job.Host, ok = c.host(target)
	case target.remote:
		job.Direction = transfer.Upload
		job.Host, ok = c.host(target)
	case f.remote:
		job.Host, ok = c.host(f.place)
	default:
		job.Direction, ok = transfer.Local, true
	}
	if !ok {
		return
	}
	if c.tree != nil && !f.stream && !target.stream {
		tree := transfer.Tree{Host: job.Host, From: job.From, Direction: job.Direction,
			Source: job.Source, Target: job.Target, Options: c.options, TreeOptions: *c.tree}
		if _, err := tree.Run(c.ctx); err != nil {
			c.note(err)
			c.hosts.checkAll()
		}
		return
	}
	switch {
	case f.stream:
		job.Reader, job.Size = c.standardInput(c.ctx)
	case target.stream:
		job.Writer = c.standardOutput(c.ctx)
	case several && target.remote:
		// That it is a directory is known: the job need not ask again.
		base := filepath.Base(f.path)
		if f.remote {
			base = path.Base(f.path)
		}
		job.Target = path.Join(job.Target, base)
	}
	if _, err := job.Run(c.ctx); err != nil {
		c.note(err)
		c.hosts.checkAll()
	}
}

// host connects to the host of a place. Where that cannot be it says so, once for each host.
func (c *copier) host(p place) (transfer.Host, bool) {
	host, told := c.hosts.get(c.ctx, p.target)
	if host.err != nil && !told {
		c.fail(host.err)
	}
	if host.err == errHostLost {
		c.untried++
	}
	return host.Host, host.err == nil
}

// wantDirectory makes sure that the target is a directory.
func (c *copier) wantDirectory(target place) error {
	var info fs.FileInfo
	var err error
	if target.remote {
		host, told := c.hosts.get(c.ctx, target.target)
		if host.err != nil && told {
			return nil
		} else if host.err != nil {
			return host.err
		}
		info, err = host.Client.WithContext(c.ctx).Stat(target.path())
	} else {
		info, err = os.Stat(target.path())
	}
	if err == nil && info.IsDir() {
		return nil
	}
	reason := "it is not a directory"
	if err != nil {
		reason = reasonOf(err)
	}
	return fmt.Errorf("cannot copy several files to %s: %s", target.typed, reason)
}

// reasonOf is an error without the operation and the path that package os and its like put in
// front.
func reasonOf(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return err.Error()
}

// hasGlob tells whether a remote path is a pattern.
func hasGlob(name string) bool { return strings.ContainsAny(name, "*?[") }
