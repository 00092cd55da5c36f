// Package sync is the verb sync.
package sync

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// Command returns the command `usftp sync`.
func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:         "sync [flags] SRC DST",
		Short:       "make one directory equal to another",
		Long:        long,
		Example:     examples,
		Annotations: map[string]string{opt.OwnPage: exits},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && cmd.Flags().Changed("human-readable") {
				return cmd.Help()
			}
			if len(args) != 2 {
				return &ui.UsageError{Err: missingOperand(cmd.Flags())}
			}
			src, dst, err := parsePlaces(args)
			if err == nil {
				err = misread(cmd.Flags(), src.Remote || dst.Remote || flags.hosts.Given())
			}
			if err == nil {
				err = flags.check(cmd.Flags().Changed)
			}
			if err == nil && flags.watch && src.Remote {
				err = errors.New("--watch needs a local SRC: hosts do not report changes")
			}
			if err == nil {
				err = flags.ReadList(cmd.Context(), a, cmd.Flags().Changed("recursive"))
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.hosts.Given() {
				return many(cmd, a, &flags, args)
			}
			if hint := complete.ForgottenColon(dst, flags.ConfigFile()); hint != "" {
				if !a.Console.Terminal() { // no user could stop it
					return &ui.UsageError{Err: errors.New(hint)}
				}
				a.Console.Say(hint)
			}
			return run(cmd.Context(), a, &flags, src, dst)
		},
	}
	flags.register(cmd.Flags())
	cmd.ValidArgsFunction = complete.Places{Connect: &flags.Connect, Local: true,
		Directories: true}.Operands
	return cmd
}

// parsePlaces parses SRC and DST.
func parsePlaces(args []string) (src, dst connect.Place, err error) {
	if src, err = connect.ParsePlace(args[0]); err == nil {
		dst, err = connect.ParsePlace(args[1])
	}
	if err == nil && (src.Stream || dst.Stream) {
		err = errors.New("sync needs directories, not -")
	}
	for _, p := range []connect.Place{src, dst} {
		if err == nil && p.Remote && strings.HasPrefix(p.Target.Path, ":") {
			err = fmt.Errorf("%s: rsync's daemon is not supported; host:path is a path on a host, and host:./:x one that begins with a colon",
				p.Typed)
		}
	}
	return src, dst, err
}

func run(ctx context.Context, a *ui.App, flags *flags, src, dst connect.Place) error {
	collectLazily()
	ctx, stop := a.Out.WhileHeard(ctx)
	defer stop()
	config := flags.Config(a, &flags.Report)
	config.Helper = flags.Delta.Helper()
	flags.CountAhead = report.Moving(a, &flags.Report, report.Look{DryRun: flags.DryRun})
	t := connect.NewTask(ctx, a, config, report.NewSync(a, &flags.Report, flags.DryRun))
	syncTrees(t, flags, src, dst, connect.Open)
	err := t.End()
	if flags.Verbose >= 2 {
		a.Console.Say("peak memory: " + ui.PeakMemory())
	}
	return err
}

// syncTrees logs in to the hosts and syncs. Events report the result for each file. open makes the
// endpoint for the source.
func syncTrees(t *connect.Task, flags *flags, src, dst connect.Place, open connect.Opener) {
	remember(t, flags, src, dst)
	t.PlanFirstRequest(src, dst, false)
	if flags.watch {
		note(t, watchTrees(t, flags, src, dst, open))
		return
	}
	t.ConnectBoth(src, dst)
	from, err := t.Open(src, open)
	if err != nil {
		return
	}
	to, err := t.Open(dst, connect.Open)
	if err != nil {
		return
	}
	options := flags.syncOptions()
	options.Events = t.Event
	if _, err = transfer.Sync(t.Ctx, to, from, options); err != nil {
		note(t, err)
	}
}

// note keeps the exit code of a failed sync.
func note(t *connect.Task, err error) {
	t.Note(err)
	if t.Code == ui.ExitFailed {
		t.Code = codeOf(err)
	}
}

// remember puts the sync into the history when it ends.
func remember(t *connect.Task, flags *flags, src, dst connect.Place) {
	if !flags.DryRun {
		t.Remember("sync", []connect.Place{src}, dst, "")
	}
}

// watchTrees syncs repeatedly until it is interrupted.
func watchTrees(t *connect.Task, flags *flags, src, dst connect.Place,
	open connect.Opener) error {
	if dst.Remote {
		if _, err := t.Host(dst); err != nil {
			return err // it has been reported
		}
	}
	options := flags.syncOptions()
	options.Events = t.Event
	round := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		t.Hosts.Again(dst.Target)
		to, err := t.Open(dst, connect.Open) // the connection may have been replaced
		if err != nil {
			return s, err
		}
		return transfer.Sync(t.Ctx, to, open(src, pool.Host{}, src.Path()), o)
	}
	err := watch(t.Ctx, src.Path(), options, round, t.Console.Say)
	if ui.Interrupted(t.Ctx) == nil && !errors.As(err, new(*transfer.Error)) { // events tell those
		t.Report.Failed(err)
	}
	return err
}

// codeOf returns the exit code for a failed sync, one of rsync's.
func codeOf(err error) int {
	switch {
	case errors.Is(err, transfer.ErrLocked), errors.Is(err, transfer.ErrDeletionRefused):
		return ui.ExitRefused
	case errors.Is(err, transfer.ErrVanished):
		return ui.ExitVanished
	case errors.As(err, new(*transfer.TreeError)):
		return ui.ExitPartial
	}
	return ui.ExitFailed
}
