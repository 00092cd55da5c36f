package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "say which version this is",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText())
	return err
}

// versionText is one line: version, commit, and what it was built with, as far as the build has
// recorded them.
func versionText() string {
	version, commit := "(unknown version)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		dirty := ""
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				if s.Value == "true" {
					dirty = ", changed"
				}
			}
		}
		if commit != "" {
			commit = " (" + commit[:min(len(commit), 12)] + dirty + ")"
		}
	}
	return fmt.Sprintf("usftp %s%s %s %s/%s", version, commit, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}
