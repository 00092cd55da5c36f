package files

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/hosts"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/ui"
)

// onEach runs the command on several hosts at once. A verb keeps and changes its options, so each
// host gets a command of its own, which reads the same arguments. typed are the arguments given to
// take, and operands the rest that it returned.
func (c *command) onEach(cmd *cobra.Command, typed, operands []string) error {
	if err := c.checkEach(cmd, operands); err != nil {
		return c.wrongUsage(err)
	}
	command := typed
	if c.rawArguments { // which have its flags, too
		_, expression, _, _ := splitFind(cmd.Flags(), typed)
		command = slices.Concat(operands, expression)
	}
	run, err := c.flags.hosts.New(c.app, c.report(), c.name, command)
	if err != nil {
		return err
	}
	return run.Each(cmd.Context(), func(ctx context.Context, a *ui.App,
		h hosts.Host) (result hosts.Result, err error) {
		own, ownCmd := newCommand(a, c.make)
		own.flags.ShareKeys(&c.flags.Connect)
		args := typed
		if !c.rawArguments {
			given := a.Args[slices.Index(a.Args, c.name)+1:]
			if err := ownCmd.ParseFlags(historical(c.name, ownCmd.Flags(), given)); err != nil {
				return result, c.wrongUsage(err)
			}
			args = ownCmd.Flags().Args()
		}
		if own.take != nil {
			if args, err = own.take(ownCmd.Flags(), args); err != nil {
				return result, c.wrongUsage(err)
			}
		}
		groups, err := own.parse(h.Operands(args))
		if err != nil {
			return result, c.wrongUsage(err)
		}
		return result, own.runAll(ctx, groups)
	})
}

// checkEach refuses operands that are not paths on each host, and questions from many hosts at
// once.
func (c *command) checkEach(cmd *cobra.Command, operands []string) error {
	if cmd.Flags().Changed("interactive") {
		return errors.New("-i cannot be used with --hosts")
	}
	if err := hosts.CheckOperands(operands); err != nil {
		return err
	}
	_, err := c.parse(hosts.Host{Label: "host", Target: dial.Target{Host: "host"}}.Operands(
		operands))
	return err
}
