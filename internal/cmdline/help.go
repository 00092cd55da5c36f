package cmdline

import (
	"errors"
	"io"
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

// shells are the shells that have completion.
var shells = map[string]func(root *cobra.Command, w io.Writer) error{
	"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":  (*cobra.Command).GenZshCompletion,
	"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },

	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

// Completion returns the command completion; long is its text.
func Completion(long string) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "print a script that completes command lines in a shell",
		Long:      long,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || shells[args[0]] == nil {
				return &ui.UsageError{Err: errors.New(
					"completion needs a shell: bash, zsh, fish or powershell")}
			}
			return shells[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
