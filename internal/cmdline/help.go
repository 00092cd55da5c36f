package cmdline

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
)

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "print help about a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string,
			cobra.ShellCompDirective) {
			var names []string
			for _, sub := range cmd.Root().Commands() {
				if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), word) &&
					len(args) == 0 {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if len(rest) > 0 {
				err = cmd.Root().Args(cmd.Root(), rest[:1])
				if usage, ok := errors.AsType[*ui.UsageError](err); ok {
					usage.Command = cmd.Root().Name()
				}
			}
			if err != nil {
				return err
			}
			return about.Help()
		},
	}
}
