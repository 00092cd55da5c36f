// Package serve is the verb serve: it shares a directory with one user, or serves one client on
// standard input and output. usftpd runs services.
package serve

import (
	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/ui"
)

func Command(a *ui.App) *cobra.Command {
	var flags flags
	cmd := &cobra.Command{
		Use:     "serve [flags] DIR",
		Short:   "serve a directory to SFTP and SCP clients",
		Long:    long,
		Example: examples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := flags.moved(); err != nil {
				a.Console.Say(err.Error())
				return &ui.ExitError{Code: ui.ExitUsage}
			}
			if err := flags.check(args); err != nil {
				return &ui.UsageError{Err: err}
			}
			if flags.stdio {
				return serveStdio(cmd.Context(), a, &flags)
			}
			share := &share{flags: &flags, dir: args[0]}
			server := &site.Site{App: a, Read: share.settings, KeyTypes: []string{"ed25519"}}
			if err := server.Start(); err != nil {
				return err
			}
			server.More = share.greeting()
			return server.Run(cmd.Context())
		},
	}
	flags.register(cmd.Flags())
	return cmd
}
