package sync

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/hosts"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/ui"
)

// many runs the sync on each of several hosts.
func many(cmd *cobra.Command, a *ui.App, flags *flags, operands []string) error {
	if _, err := hosts.Direction(operands); err != nil {
		return &ui.UsageError{Err: err}
	}
	run, err := flags.hosts.New(a, &flags.Report, "sync", operands)
	if err != nil {
		return err
	}
	run.DryRun = flags.DryRun
	common, err := hosts.Common(operands, true)
	if err != nil {
		return &ui.UsageError{Err: err}
	}
	sources, err := hosts.NewSources(cmd.Context(), a, flags.Config(a, &flags.Report), common)
	if err != nil {
		return err
	}
	defer sources.Close()
	one := func(ctx context.Context, a *ui.App, h hosts.Host) (hosts.Result, error) {
		src, dst, err := parsePlaces(h.Operands(operands))
		if err != nil {
			return hosts.Result{}, err
		}
		ctx, stop := a.Out.WhileHeard(ctx)
		defer stop()
		config := flags.Config(a, &flags.Report)
		if config.Connections == 0 {
			config.Connections = run.Connections()
		}
		t := connect.NewTask(ctx, a, config, report.NewSync(a, &flags.Report, flags.DryRun))
		sources.Lend(t)
		t.PlanFirstRequest(src, dst, false)
		if h.Begin(t, src, &dst, flags.DryRun) != nil {
			remember(t, flags, src, dst)
		} else {
			own := *flags
			if !dst.Remote { // a dry run has not made the host's directory
				own.SetMakePath()
			}
			syncTrees(t, &own, src, dst, sources.Open)
		}
		return hosts.Result{Files: t.Files, Bytes: t.Bytes}, t.End()
	}
	return run.Each(cmd.Context(), one)
}
