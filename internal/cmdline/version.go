package cmdline

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
)

// Version returns the command version.
func Version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print the version",
		Args:  ui.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), versionText(cmd.Root().Name()))
	return err
}

// versionText returns one line: version, commit, Go version and platform.
func versionText(program string) string {
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s %s %s %s/%s", program, versionOf(info), runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
}

// versionOf returns the version recorded in the build. A build without a version is identified by
// its commit, or is unknown.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return "(unknown version, unknown commit)"
	}
	version, commit, changed := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	unversioned := version == "" || version == "(devel)"
	switch {
	case commit != "" && unversioned:
		return fmt.Sprintf("(no version, commit %s%s)", commit, changed)
	case commit != "":
		return fmt.Sprintf("%s (%s%s)", version, commit, changed)
	case unversioned:
		return "(no version, unknown commit)"
	}
	return version
}
