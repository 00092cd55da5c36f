// Package cmdline has the common parts of the command lines of usftp and usftpd: running them,
// help, completion, man pages and the version.
package cmdline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/ui"
)

// Texts are a program's texts besides those in its table of commands.
type Texts struct {
	// Hint returns the replacement for a flag that a command does not have, or "".
	Hint func(cmd *cobra.Command, flag string) string

	// Usage writes the text after a command's flags in its help.
	Usage func(w io.Writer, cmd *cobra.Command)
}

// Not in Complete: it is cobra's for all commands, and tests complete several at once.
func init() { cobra.EnableCommandSorting = false }

// Complete makes a table of commands a program. It adds the commands help, version and completion,
// and the flag --version.
func Complete(a *ui.App, root *cobra.Command, texts Texts) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(a.Out)
	root.SetErr(a.Console)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		ui.WriteParagraphs(cmd.OutOrStdout(), cmp.Or(cmd.Long, cmd.Short))
		fmt.Fprintln(cmd.OutOrStdout())
		cmd.Usage()
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		usage(cmd)
		texts.Usage(cmd.OutOrStdout(), cmd)
		return nil
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &ui.UsageError{Err: flagError(cmd, err, texts.Hint)}
	})
	root.Flags().SetInterspersed(false) // an unknown command may have flags that are unknown, too
	// Not cobra's own version flag, which uses a template: linking text/template makes the linker
	// keep all methods, which costs 4.7 MB.
	version := root.Flags().Bool("version", false, "print the version")
	run := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return printVersion(cmd)
		}
		return run(cmd, args)
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand())
	for _, c := range append(root.Commands(), root) {
		if c.Flags().Lookup("help") == nil {
			c.Flags().BoolP("help", "h", false, "print help") // cobra's names the command again
		}
	}
}

// Run runs a program with its arguments and returns its exit code.
func Run(ctx context.Context, a *ui.App, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	code := exitCode(ctx, a, cmd, err)
	if ended, ok := errors.AsType[*ui.ExitError](err); ok && ended.Code == ui.ExitOK {
		return ui.ExitOK // a server that was asked to end
	}
	lost := a.Out.Close()
	if lost != nil && !ui.ReaderGone(lost) && !errors.As(err, new(*ui.OutputError)) {
		a.Console.Say(lost.Error())
	}
	if lost != nil && (code == ui.ExitOK || ui.ReaderGone(lost)) {
		return ui.CodeOf(lost)
	}
	return code
}

// exitCode reports a command's error, unless it was reported before, and returns the exit code.
func exitCode(ctx context.Context, a *ui.App, cmd *cobra.Command, err error) int {
	if signal := ui.Interrupted(ctx); signal != nil {
		return signal.Code()
	}
	if failed, ok := errors.AsType[*ui.ExitError](err); ok { // everything has been reported
		return failed.Code
	}
	code := ui.CodeOf(err)
	if err != nil && code != ui.ExitOutputGone {
		for _, text := range texts(err, nil) {
			a.Console.Say(text)
		}
		if usage, ok := errors.AsType[*ui.UsageError](err); ok {
			fmt.Fprintf(a.Console, "Try `%s --help` for more information.\n",
				cmp.Or(usage.Command, cmd.CommandPath()))
		}
	}
	return code
}

// texts appends the text of an error, or the texts of the errors joined in it, each once.
func texts(err error, all []string) []string {
	if joined, ok := err.(interface{ Unwrap() []error }); ok && reflect.TypeOf(err) == joinedType {
		for _, one := range joined.Unwrap() {
			all = texts(one, all)
		}
	} else if text := err.Error(); !slices.Contains(all, text) {
		all = append(all, text)
	}
	return all
}

// joinedType tells [errors.Join] from fmt.Errorf with several errors, which has a text of its own.
var joinedType = reflect.TypeOf(errors.Join(errors.ErrUnsupported))

const (
	// ConnectionGroup marks flags that help lists together, in [pflag.Flag.Annotations].
	ConnectionGroup = "connection"

	// FlagValues lists the values that a flag may have, for completion, in [pflag.Flag.Annotations].
	FlagValues = "values"
)

// Values declares the values of a flag.
func Values(f *pflag.FlagSet, name string, values ...string) {
	f.SetAnnotation(name, FlagValues, values)
}
