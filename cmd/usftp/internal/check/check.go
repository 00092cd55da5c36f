// Package check is the verb check.
package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// flags is the command line of check: the connection and report flags of cp, and the selection of
// files to compare.
type flags struct {
	opt.Connect
	opt.Tree
	opt.Report
	hash   string
	strict bool
}

func (c *flags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	c.Connect.RegisterSFTP(f)
	f.StringVar(&c.hash, "hash", "sha256",
		"the list's `algorithm`: sha256 or blake3")
	cmdline.Values(f, "hash", "sha256", "blake3")
	f.BoolVar(&c.strict, "strict", false, "fail for files that are not in the list, too")
	c.RegisterFilter(f, "ignore what matches `pattern`, in the list too, and everything below it")
	c.RegisterBounds(f)
	f.BoolVar(&c.StopOnError, "stop-on-error", false, "stop at the first failure")
	c.Report.Register(f)
}

// check checks the flags; set reports whether one was given.
func (c *flags) check(set func(name string) bool) error {
	if _, err := checksum.ParseAlgorithm(c.hash); err != nil {
		return fmt.Errorf("--hash: %w", err)
	}
	if err := c.Connect.Check(set); err != nil {
		return err
	}
	return c.Tree.Check()
}

func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:     "check [flags] LIST DIR",
		Short:   "compare files with a list of hashes",
		Long:    long,
		Example: examples,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := flags.check(cmd.Flags().Changed)
			var dir connect.Place
			if err == nil {
				dir, err = parseCheckPlaces(args)
			}
			if err != nil {
				return &ui.UsageError{Err: err}
			}
			return run(cmd.Context(), a, &flags, args[0], dir)
		},
	}
	flags.register(cmd.Flags())
	cmd.ValidArgsFunction = complete.Places{Connect: &flags.Connect, Local: true}.Operands
	return cmd
}

func parseCheckPlaces(args []string) (dir connect.Place, err error) {
	if len(args) != 2 {
		return connect.Place{}, errors.New("missing operand: check needs a list and a directory")
	}
	if dir, err = connect.ParsePlace(args[1]); err == nil && dir.Stream {
		err = errors.New("the second operand must be a directory, not -")
	}
	return dir, err
}

func run(ctx context.Context, a *ui.App, flags *flags, name string, dir connect.Place) error {
	ctx, stop := a.Out.WhileHeard(ctx)
	defer stop()
	config := flags.Config(a, &flags.Report)
	t := connect.NewTask(ctx, a, config, report.NewCheck(a, &flags.Report, name, flags.strict))
	t.Remember("check", []connect.Place{{Typed: name, Stream: name == "-"}}, dir, "")
	list, err := checksum.Open(name, checksum.Algorithm(flags.hash))
	if err != nil {
		t.Fail(fmt.Errorf("cannot use the list of hashes: %w", err))
		return t.End()
	}
	defer list.Close()
	checkFiles(t, flags, list, dir)
	return t.End()
}

// checkFiles compares the files. Events report the result for each.
func checkFiles(t *connect.Task, flags *flags, list *checksum.List, dir connect.Place) {
	o := transfer.CheckOptions{TreeOptions: flags.TreeOptions(), Strict: flags.strict}
	o.Options = flags.TransferOptions()
	o.Hash, o.Events = checksum.Algorithm(flags.hash), t.Event
	files, err := t.Open(dir, connect.Open)
	if err != nil {
		return
	}
	if _, err := transfer.Check(t.Ctx, files, list, o); err != nil {
		t.Note(err)
	}
}
