// Package sync is the verb sync.
package sync

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/cli/complete"
	"github.com/usftp/usftp/internal/cli/connect"
	"github.com/usftp/usftp/internal/cli/opt"
	"github.com/usftp/usftp/internal/cli/report"
	"github.com/usftp/usftp/internal/cli/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Command returns the command `usftp sync`.
func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:         "sync [flags] SRC DST",
		Short:       "make a directory equal to another",
		Long:        long,
		Example:     examples,
		Annotations: map[string]string{opt.OwnPage: exits},
		RunE: func(cmd *cobra.Command, args []string) error {
			src, dst, err := parsePlaces(args)
			if err == nil {
				err = flags.check(cmd.Flags().Changed)
			}
			if err == nil && flags.watch && src.Remote {
				err = errors.New("--watch needs a local SRC: hosts do not report changes")
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.hosts.Given() {
				return many(cmd, a, &flags, args)
			}
			return run(cmd.Context(), a, &flags, src, dst)
		},
	}
	flags.register(cmd.Flags())
	cmd.ValidArgsFunction = complete.Places{Connect: &flags.Connect, Local: true,
		Directories: true}.Operands(0)
	return cmd
}

func parsePlaces(args []string) (src, dst connect.Place, err error) {
	if len(args) != 2 {
		return src, dst, errors.New("sync needs two directories: SRC and DST")
	}
	if src, err = connect.ParsePlace(args[0]); err == nil {
		dst, err = connect.ParsePlace(args[1])
	}
	if err == nil && (src.Stream || dst.Stream) {
		err = errors.New("sync needs directories, not -")
	}
	return src, dst, err
}

func run(ctx context.Context, a *ui.App, flags *flags, src, dst connect.Place) error {
	collectLazily()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.Out.StopWhenLost(stop)
	config := flags.Config(a, &flags.Report)
	config.Helper = flags.delta.Helper()
	t := connect.NewTask(ctx, a, config, report.NewSync(a, &flags.Report, flags.DryRun))
	defer t.Hosts.Close()
	syncTrees(t, flags, src, dst, connect.Open)
	t.Report.End(t.Code)
	if flags.Verbose >= 2 {
		a.Console.Say("peak memory: " + ui.PeakMemory())
	}
	if t.Code != ui.ExitOK {
		return &ui.ExitError{Code: t.Code}
	}
	return nil
}

// An opener makes the endpoint for a path at a place; see [connect.Open].
type opener func(p connect.Place, host pool.Host, path string) transfer.Endpoint

// syncTrees logs in to the hosts and syncs. Events report the result for each file. open makes the
// endpoint for the source.
func syncTrees(t *connect.Task, flags *flags, src, dst connect.Place, open opener) {
	askAhead(t, src, dst)
	if flags.watch {
		t.Note(watchTrees(t, flags, src, dst, open))
		return
	}
	if src.Remote && dst.Remote {
		from, to := src.Target, dst.Target
		if from.Path, to.Path = "", ""; from != to {
			t.Hosts.ConnectAll(t.Ctx, from, to)
		}
	}
	from, ok := endpoint(t, src, open)
	if !ok {
		return
	}
	to, ok := endpoint(t, dst, connect.Open)
	if !ok {
		return
	}
	options := flags.syncOptions()
	options.Events = t.Report.Event
	_, err := transfer.Sync(t.Ctx, to, from, options)
	if err != nil {
		t.Note(err)
		if t.Code == ui.ExitFailed {
			t.Code = codeOf(err)
		}
	}
}

// watchTrees syncs repeatedly until it is interrupted.
func watchTrees(t *connect.Task, flags *flags, src, dst connect.Place, open opener) error {
	options := flags.syncOptions()
	options.Events = t.Report.Event
	round := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		to := transfer.Local(dst.Path())
		if dst.Remote { // the connection may have been replaced
			place := t.AtHome(dst)
			host, err := t.Host(place)
			if err != nil {
				return s, err
			}
			to = transfer.Remote(host, place.Path())
		}
		return transfer.Sync(t.Ctx, to, open(src, pool.Host{}, src.Path()), o)
	}
	err := watch(t.Ctx, src.Path(), options, round, t.Console.Say)
	if ui.Interrupted(t.Ctx) == nil && !isPartial(err) {
		t.Report.Failed(err)
	}
	return err
}

// endpoint connects to the host of a place. It returns false if that fails, which it has reported.
func endpoint(t *connect.Task, p connect.Place, open opener) (transfer.Endpoint, bool) {
	p = t.AtHome(p)
	var host pool.Host
	if p.Remote {
		var err error
		if host, err = t.Host(p); err != nil {
			return transfer.Endpoint{}, false
		}
	}
	return open(p, host, p.Path()), true
}

// askAhead sends the first request about a directory on a host with the login, if only one host is
// involved.
func askAhead(t *connect.Task, src, dst connect.Place) {
	p := dst
	if src.Remote {
		p = src
	}
	if src.Remote != dst.Remote && !strings.HasPrefix(p.Target.Path, "~") {
		t.Hosts.Config.Look = p.Path()
	}
}

// codeOf returns the exit code for a failed sync. The numbers are rsync's.
func codeOf(err error) int {
	var tree *transfer.TreeError
	switch {
	case errors.Is(err, transfer.ErrLocked), errors.Is(err, transfer.ErrDeletionRefused):
		return ui.ExitRefused
	case errors.Is(err, transfer.ErrVanished):
		return ui.ExitVanished
	case errors.As(err, &tree):
		return ui.ExitPartial
	}
	return ui.ExitFailed
}
