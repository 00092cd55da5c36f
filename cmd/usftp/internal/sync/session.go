package sync

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// InSession runs sync within a session on a host, with the flags of the command line. endpoint
// interprets an operand.
func InSession(ctx context.Context, a *ui.App, args []string,
	endpoint func(operand string) (transfer.Endpoint, error)) error {
	var flags flags
	f := pflag.NewFlagSet("sync", pflag.ContinueOnError)
	f.Usage = func() {}
	flags.register(f)
	err := f.Parse(args)
	if err == nil && f.NArg() != 2 {
		err = errors.New("sync needs two directories: SRC and DST")
	}
	if err == nil {
		err = flags.check(f.Changed)
	}
	if err == nil && flags.watch {
		err = errors.New("--watch is for the command line")
	}
	if err != nil {
		return err
	}
	from, err := endpoint(f.Arg(0))
	if err != nil {
		return err
	}
	to, err := endpoint(f.Arg(1))
	if err != nil {
		return err
	}
	r := report.NewSync(a, &flags.Report, flags.DryRun)
	options := flags.syncOptions()
	options.Events = r.Event
	if _, err = transfer.Sync(ctx, to, from, options); err != nil {
		r.End(codeOf(err))
		return &ui.ExitError{Code: codeOf(err)}
	}
	r.End(ui.ExitOK)
	return nil
}
