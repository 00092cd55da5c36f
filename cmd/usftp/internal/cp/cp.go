// Package cp is the verb cp.
package cp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:     "cp [flags] SRC... DST",
		Short:   "copy files to, from and between hosts",
		Long:    long,
		Example: examples,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := flags.check(cmd.Flags().Changed)
			if err == nil {
				err = flags.ReadList(cmd.Context(), a, flags.recursive)
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			if args, err = expandHere(args); err != nil {
				return err
			}
			if flags.hosts.Given() {
				return many(cmd, a, &flags, args)
			}
			sources, target, err := connect.ParsePlaces(args, flags.through)
			if err == nil {
				err = flags.checkPlaces(sources, target)
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.old {
				if err := flags.checkOld(cmd.Flags(), sources, target); err != nil {
					return &ui.UsageError{Err: err}
				}
				return runOld(cmd.Context(), a, &flags, sources, target)
			}
			if hint := complete.ForgottenColon(target, flags.ConfigFile()); hint != "" {
				a.Console.Say(hint)
			}
			return run(cmd.Context(), a, &flags, sources, target)
		},
	}
	flags.register(cmd.Flags())
	cmd.ValidArgsFunction = complete.Places{Connect: &flags.Connect, Local: true}.Operands
	return cmd
}

func run(ctx context.Context, a *ui.App, flags *flags, sources []connect.Place,
	target connect.Place) error {
	flags.CountAhead = report.Moving(a, &flags.Report, report.Look{})
	c, err := flags.copier(ctx, a, sources, target)
	if err != nil {
		return err
	}
	c.planFirstRequest(sources, target)
	c.Copy(sources, target)
	if c.canResume {
		kept := ""
		if n := c.Bytes + c.Kept; n > 0 {
			kept = ui.Amount(float64(n)) + " kept for --resume; "
		}
		a.Console.Say(kept + "to continue: " + ui.CommandLine(a.Args, "cp", "--resume"))
	}
	err = c.End()
	if flags.Verbose >= 2 {
		a.Console.Say("peak memory: " + ui.PeakMemory())
	}
	return err
}

// copier returns a Copier with the options of the flags. The caller must call End.
func (f *flags) copier(ctx context.Context, a *ui.App, sources []connect.Place,
	target connect.Place) (*Copier, error) {
	hosts := f.Config(a, &f.Report)
	hosts.Helper = f.Delta.Helper()
	config := hosts.Dial
	if f.agent {
		config.Logger.Info("-A has no effect: usftp logs in to both hosts from here")
	}
	stop := func() {}
	if f.DryRun {
		ctx, stop = a.Out.WhileHeard(ctx)
	}
	c := NewCopier(ctx, a, hosts, f.transferOptions(), report.New(a, &f.Report,
		report.Look{Recursive: f.recursive || f.Listed(), DryRun: f.DryRun,
			ToTerminal: target.Stream && ui.IsTerminal(a.Stdout)}))
	c.stop, c.stopOnError, c.dryRun = stop, f.StopOnError, f.DryRun
	if !f.DryRun {
		c.Remember("cp", sources, target, f.hashes.manifest)
	}
	lists, err := f.hashes.open()
	if err != nil {
		c.Fail(err)
		return nil, c.End()
	}
	c.lists, c.options.List = lists, lists.check
	c.options.Events = lists.listen(c.options.Events)
	if f.recursive || f.Listed() {
		options := f.TreeOptions()
		f.ApplyTree(&options)
		c.tree = &options
	}
	if target.Remote && f.Limit == 0 && c.options.Delta == transfer.DeltaNever {
		c.Hosts.Config.Expected = largest(sources)
	}
	return c, nil
}

// End completes the lists and the report.
func (c *Copier) End() error {
	defer c.lists.close()
	defer c.stop()
	c.finishLists()
	return c.Task.End()
}

// planFirstRequest announces the first request to the connections. It is known for a single source
// that is not a pattern.
func (c *Copier) planFirstRequest(sources []connect.Place, target connect.Place) {
	if len(sources) == 1 && !strings.ContainsAny(sources[0].Target.Path, `*?[\`) {
		c.PlanFirstRequest(sources[0], target, c.tree == nil)
	}
}

// largest returns the size of the largest local file among the sources.
func largest(sources []connect.Place) (size int64) {
	for _, s := range sources {
		if s.Remote || s.Stream {
			continue
		}
		if info, err := os.Stat(s.Path()); err == nil && info.Mode().IsRegular() {
			size = max(size, info.Size())
		}
	}
	return size
}

// A Copier copies files.
type Copier struct {
	*connect.Task
	options     transfer.Options
	tree        *transfer.TreeOptions // nil unless directories are copied
	lists       lists
	stop        func() // ends the context of a dry run
	canResume   bool   // --resume would continue the rest
	stopOnError bool
	dryRun      bool
	untried     int // files not tried after a connection was lost for good

	// open makes the endpoint for a source, and stream for a source that is a stream.
	open   connect.Opener
	stream func() transfer.Endpoint
	name   string // the stream's name, "" if it has none
}

func NewCopier(ctx context.Context, a *ui.App, config pool.ConnectConfig,
	options transfer.Options, report report.Reporter) *Copier {
	c := &Copier{Task: connect.NewTask(ctx, a, config, report), options: options,
		open:   connect.Open,
		stream: func() transfer.Endpoint { return transfer.Reader(a.StandardInput(ctx)) }}
	c.options.Events = c.Event
	if d := config.Dial; d.Server == "" && d.SFTPServer == "" {
		c.Hosts.Advise = adviseOld
	}
	return c
}

// Copy copies the sources to the target.
func (c *Copier) Copy(sources []connect.Place, target connect.Place) {
	// Patterns must be expanded before the target can be checked: several files need a directory.
	var files []file
	if i := slices.IndexFunc(sources, func(s connect.Place) bool { return s.Remote }); i >= 0 {
		c.ConnectBoth(sources[i], target)
	}
	c.Home(&target)
	for _, s := range sources {
		found, err := c.expand(s)
		if err != nil {
			c.Fail(err)
		}
		if c.over() {
			return
		}
		files = append(files, found...)
	}
	several := len(sources) > 1 || len(files) > 1
	if several && c.options.NoTargetDirectory {
		c.Fail(fmt.Errorf("cannot copy several files to %s: -T needs exactly one source",
			target.Typed))
		return
	}
	if several && len(files) > 0 && !target.Stream {
		want := c.wantDirectory
		if c.options.MakePath {
			want = c.makeDirectory
		}
		if err := want(target); err != nil {
			c.Fail(err)
			return
		}
	}
	if i := slices.IndexFunc(files, file.isContents); c.moves() && several && i >= 0 {
		c.Fail(fmt.Errorf("cannot move %s to %s along with other sources: if two had a file of the same name, one would be lost",
			files[i].shown(), target.Typed))
		return
	}
	c.copyAll(files, target, several)
	if c.untried > 0 && c.Ctx.Err() == nil {
		c.Report.Failed(fmt.Errorf("%s skipped: the connection was lost",
			ui.Count(int64(c.untried), "further source was", "further sources were")))
	}
}

// moves reports whether trees are moved. One that failed may have been moved in part.
func (c *Copier) moves() bool { return c.tree != nil && c.options.RemoveSource }

// over reports whether copying should stop.
func (c *Copier) over() bool { return c.Ctx.Err() != nil || c.stopOnError && c.Code != ui.ExitOK }

// A file is one source, after patterns were expanded.
type file struct {
	connect.Place
	path string
	name string // the copy's name, if it is not the last element of path
}

// base returns the name of the copy in the target directory.
func (f file) base() string {
	switch {
	case f.name != "":
		return f.name
	case f.Remote:
		return path.Base(f.path)
	}
	return filepath.Base(f.path)
}

// isContents reports whether the contents of a directory are meant, and not the directory.
func (f file) isContents() bool {
	return slices.Contains([]string{".", "..", "/", `\`}, f.base())
}

func (f file) shown() string {
	if !f.Remote {
		return ui.Printable(f.path)
	}
	at := f.Target
	at.Path = f.path
	return ui.Printable(at.String())
}

// isFree reports whether no other source's copy has the name of f's copy, unless f may follow it.
// Otherwise it tells the user.
func (c *Copier) isFree(taken connect.Taken[file], f file, target connect.Place) bool {
	if target.Stream {
		return true
	}
	first, ok := taken.Exactly(f.base())
	switch {
	case ok:
		ok = !c.mayFollow(f, first)
	case !c.dryRun: // of a dry run no copy could show it
		client := c.client(target)
		if target.Remote && client == nil {
			return true
		}
		first, ok = taken.Spelled(f.base(), client, target.Path())
	}
	if ok {
		c.Fail(fmt.Errorf("cannot copy %s to %s: %s was copied there under the same name",
			f.shown(), target.Typed, first.shown()))
	}
	return !ok
}

// client returns the client for a place, nil for this machine. It is also nil if the host cannot be
// reached, which copying a file reports.
func (c *Copier) client(p connect.Place) *usftp.Client {
	if !p.Remote {
		return nil
	}
	host, err := c.Task.Host(p)
	if err != nil {
		return nil
	}
	return host.Client.WithContext(c.Ctx)
}

// isLink reports whether a name in the target directory is a symbolic link.
func (c *Copier) isLink(target connect.Place, name string) bool {
	look := os.Lstat
	if target.Remote {
		client := c.client(target)
		if client == nil {
			return false
		}
		look = private.OfClient(client).Look
	}
	info, err := look(target.Below(name))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// mayFollow reports whether f may be copied after first, which has the same name. That would
// replace first's copy, unless both are the same source, or f is a directory, which is merged with
// it. If sources are removed, none is merged: of a file that both have, one would be lost.
func (c *Copier) mayFollow(f, first file) bool {
	from, before := f.Target, first.Target
	from.Path, before.Path = "", ""
	if f.Remote == first.Remote && from == before && f.path == first.path {
		return true
	}
	if c.tree == nil || c.options.RemoveSource {
		return false
	}
	info, err := c.Find(f.Place, f.path)
	return err != nil && !private.Untold(err) || err == nil && info.IsDir()
}

// copyAlone copies one source, and reports whether it succeeded. again means that an attempt beside
// others has failed.
func (c *Copier) copyAlone(f file, target connect.Place, several, again bool,
	events func(transfer.Event)) bool {
	if several && c.options.RemoveSource && c.isLink(target, f.base()) {
		c.Fail(fmt.Errorf("cannot move %s to %s along with other sources: that is a link, and if another were copied to where it leads, one would be lost",
			f.shown(), connect.BelowHere(target.Typed, f.base())))
		return false
	}
	ends, ok := c.ends(f, target, several)
	if !ok {
		return false
	}
	if c.dryRun && c.tree == nil {
		if ends.exact {
			target.Typed = connect.BelowHere(target.Typed, f.base())
			target.Target.Path = connect.Below(target.Target.Path, f.base())
		}
		if err := c.mayCopy(f, target, ends.exact || c.options.NoTargetDirectory); err != nil {
			c.Fail(fmt.Errorf("cannot copy %s to %s: %w", f.shown(), target.Typed, err))
			return false
		}
	}
	ends.again = again
	options := c.options
	options.Events = events
	err := c.copy(ends, options)
	c.ended(err)
	return err == nil
}

// ends are the endpoints of one copy.
type ends struct {
	src, dst transfer.Endpoint
	file     bool // the source may not be a directory
	exact    bool // nor may the target
	again    bool // what an attempt has left is continued
}

// ends returns the endpoints of a copy, unless it has reported that a host cannot be reached.
func (c *Copier) ends(f file, target connect.Place, several bool) (e ends, ok bool) {
	if f.name != "" && !target.Stream && !c.options.NoTargetDirectory && (several ||
		c.enters(target)) {
		target.Typed = connect.BelowHere(target.Typed, f.name)
		target.Target.Path = connect.Below(target.Target.Path, f.name)
		several = false
	}
	var from pool.Host
	if f.Remote {
		if from, ok = c.host(f.Place); !ok {
			return e, false
		}
	}
	name := target.Path()
	// With several, the target is known to be a directory, so the copy need not ask again.
	if c.tree == nil && (several && target.Remote || c.dryRun && !c.options.NoTargetDirectory &&
		c.enters(target)) {
		name = target.Below(f.base())
	}
	near := name
	if c.tree == nil && several && near == target.Path() {
		near = connect.Within(near)
	}
	e = ends{src: c.open(f.Place, from, f.path), dst: transfer.Local(near), file: c.tree == nil,
		exact: name != target.Path()}
	if target.Remote {
		host, ok := c.host(target)
		if !ok {
			return e, false
		}
		e.dst = transfer.Remote(host, name)
	}
	if f.Stream || target.Stream {
		e.file = true
		if f.Stream {
			e.src = c.stream()
		}
		if target.Stream {
			e.dst = transfer.Writer(c.StandardOutput(c.Ctx))
		}
	}
	return e, true
}

// copy copies one source. Its own events tell the user.
func (c *Copier) copy(e ends, options transfer.Options) (err error) {
	options.NoTargetDirectory = options.NoTargetDirectory || e.exact
	options.Resume = options.Resume || e.again
	switch {
	case !e.file:
		tree := *c.tree
		tree.Options = options
		_, err = transfer.CopyTree(c.Ctx, e.dst, e.src, tree)
	case c.dryRun:
		_, err = transfer.CopyTree(c.Ctx, e.dst, e.src, transfer.TreeOptions{Options: options,
			DryRun: true})
	default:
		_, err = transfer.Copy(c.Ctx, e.dst, e.src, options)
	}
	return err
}

// ended notes the end of a copy.
func (c *Copier) ended(err error) {
	if err != nil {
		c.canResume = c.canResume || c.resumable(err)
		c.Note(err)
		c.Hosts.CheckAll(err)
	}
}

// mayCopy returns why a source cannot be copied without -r, for a dry run. exact says that the
// target may not be a directory.
func (c *Copier) mayCopy(f file, target connect.Place, exact bool) error {
	info, err := c.Find(f.Place, f.path)
	switch {
	case private.Untold(err): // opening it will show
	case err != nil:
		return errors.New(ui.ReasonOf(err))
	case info.IsDir():
		return fmt.Errorf("%w (-r copies directories)", transfer.ErrIsDirectory)
	}
	if info, err = c.Find(target, target.Path()); exact && err == nil && info.IsDir() {
		return transfer.ErrIsDirectory
	}
	return nil
}

// resumable reports whether --resume could continue a failed copy: a partial file, or an
// interrupted tree.
func (c *Copier) resumable(err error) bool {
	if failed, ok := errors.AsType[*transfer.Error](err); ok && failed.Resumable {
		return true
	}
	// Any error but a TreeError means that the tree was not started, for example because its host
	// could not be reached.
	return errors.As(err, new(*transfer.TreeError)) && c.tree != nil && !c.tree.DryRun &&
		c.options.Placement != transfer.PlaceDirect &&
		(c.Ctx.Err() != nil || ui.CodeOf(err) == ui.ExitNoHost)
}

// host connects to the host of a place. It reports a failure once for each host.
func (c *Copier) host(p connect.Place) (pool.Host, bool) {
	host, err := c.Task.Host(p)
	if err == connect.ErrHostLost {
		c.untried++
	}
	return host, err == nil
}

// enters reports whether a copy of one file goes into the target, by the rules of package transfer.
func (c *Copier) enters(target connect.Place) bool {
	name := target.Path()
	info, err := c.Find(target, name)
	base := path.Base(name)
	return err == nil && info.IsDir() ||
		private.Untold(err) && (strings.HasSuffix(name, "/") || base == "." || base == "..")
}

// wantDirectory makes sure that the target is a directory, if that can be known.
func (c *Copier) wantDirectory(target connect.Place) error {
	if target.Remote {
		if _, err := c.Host(target); err != nil {
			return nil // it has been reported
		}
	}
	info, err := c.Find(target, target.Path())
	if err == nil && info.IsDir() || private.Untold(err) { // then copying there will show
		return nil
	}
	reason := "not a directory"
	if err != nil {
		reason = ui.ReasonOf(missing(target.Typed, err))
	}
	return fmt.Errorf("cannot copy several files to %s: %s", target.Typed, reason)
}

// missing names the directory that was to hold a new file, if err says that it does not exist.
func missing(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return endpoint.NoDirectory(dir)
}

// makeDirectory makes the target a directory.
func (c *Copier) makeDirectory(target connect.Place) (err error) {
	switch {
	case c.dryRun:
	case target.Remote:
		host, hostErr := c.Host(target)
		if hostErr != nil {
			return nil // it has been reported
		}
		err = host.Client.WithContext(c.Ctx).MkdirAll(target.Path())
	default:
		err = os.MkdirAll(target.Path(), 0o777)
	}
	if err != nil {
		err = fmt.Errorf("cannot make the directory %s: %s", target.Typed, ui.ReasonOf(err))
	}
	return err
}
