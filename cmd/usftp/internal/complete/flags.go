package complete

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cmdline"
)

// Flags completes the values of all flags of a command and its subcommands: from the values listed
// in the flag table (cmdline.Values), or by the name of the argument.
func Flags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" || f.Value.Type() == "count" {
			return
		}
		if _, exists := cmd.GetFlagCompletionFunc(f.Name); exists {
			return
		}
		cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, word string) (
			[]string, cobra.ShellCompDirective) {
			return flagValues(cmd, f, word)
		})
	})
	for _, sub := range cmd.Commands() {
		Flags(sub)
	}
}

// Matching returns the words that begin with a prefix.
func Matching(words []string, prefix string) (matching []string) {
	for _, word := range words {
		if strings.HasPrefix(word, prefix) {
			matching = append(matching, word)
		}
	}
	return matching
}

// flagValues returns completions for the value of a flag.
func flagValues(cmd *cobra.Command, f *pflag.Flag, word string) ([]string,
	cobra.ShellCompDirective) {
	if values, ok := f.Annotations[cmdline.FlagValues]; ok {
		words := Matching(values, word)
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(words) == 1 && strings.HasSuffix(words[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return words, directive
	}
	argument, _ := pflag.UnquoteUsage(f)
	if f.Name == "hosts" {
		argument = "host"
	}
	switch argument {
	case "file", "program", "command":
		return nil, cobra.ShellCompDirectiveDefault
	case "directory", "dir":
		return nil, cobra.ShellCompDirectiveFilterDirs
	case "host":
		config := ""
		if c := cmd.Flags().Lookup("config"); c != nil {
			config = c.Value.String()
		}
		at := strings.LastIndexByte(word, ',') + 1
		done, last := word[:at], word[at:]
		var words []string
		for _, host := range matchHosts(config, last) {
			words = append(words, done+host)
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
