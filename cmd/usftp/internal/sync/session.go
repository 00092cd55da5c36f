package sync

import (
	"context"
	"errors"
	"fmt"

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
		err = missingOperand(f)
	}
	if err == nil {
		err = inSession(f)
	}
	if err == nil {
		err = flags.check(f.Changed)
	}
	if err == nil {
		err = flags.ReadList(ctx, a, f.Changed("recursive"))
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
		code := ui.CodeOf(err)
		if code == ui.ExitFailed {
			code = codeOf(err)
		}
		r.End(code)
		return &ui.ExitError{Code: code}
	}
	r.End(ui.ExitOK)
	return nil
}

// inSession refuses flags that have no meaning in a session, where the letters of ssh can only be
// meant as rsync's: -cn would be no dry run.
func inSession(f *pflag.FlagSet) error {
	for _, m := range misreadings {
		if f.Changed(m.flag) {
			return fmt.Errorf("--%s: the session is connected already%s", m.flag, m.hint())
		}
	}
	for _, name := range []string{"watch", "hosts", "hosts-file"} {
		if f.Changed(name) {
			return fmt.Errorf("--%s is for the command line", name)
		}
	}
	if f.Lookup("files-from").Value.String() == "-" { // commands come from there
		return errors.New("--files-from needs a file in a session, not -")
	}
	return nil
}
