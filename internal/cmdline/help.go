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
	"fish": fishCompletion,

	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

// fishQuoting corrects how cobra's script for fish quotes the words of a command line. It evaluates
// those before the last without their quotes, so that a file's name such as "a;reboot" would run a
// command, and quotes the last one twice, so that nothing is found below a name with a space.
var fishQuoting = []struct{ theirs, ours string }{
	{"set -l args (commandline -opc)\n",
		`set -l args (commandline -opc | string escape | string replace -r '^(["\']?)~/' '~/$1')` + "\n"},
	{"(string escape -- (commandline -ct))",
		"(string escape -- (commandline -ct | string unescape))"},
	{"(commandline -t | string escape --style=regex)",
		"(commandline -t | string unescape | string escape --style=regex)"},
}

// fishCompletion fails if another version of cobra has another script: it might run names.
func fishCompletion(root *cobra.Command, w io.Writer) error {
	var theirs strings.Builder
	if err := root.GenFishCompletion(&theirs, true); err != nil {
		return err
	}
	script, err := quotedForFish(theirs.String())
	if err == nil {
		_, err = io.WriteString(w, script)
	}
	return err
}

func quotedForFish(script string) (string, error) {
	known := strings.Count(script, "(commandline ") == len(fishQuoting)
	for _, q := range fishQuoting {
		known = known && strings.Count(script, q.theirs) == 1
		script = strings.Replace(script, q.theirs, q.ours, 1)
	}
	if !known {
		return "", errors.New("this version of cobra has another script for fish, which may run names of files as commands")
	}
	return script, nil
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
