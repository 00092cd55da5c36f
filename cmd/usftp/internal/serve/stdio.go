package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/stdio"
)

// serveStdio stands in for OpenSSH's sftp-server(8).
func serveStdio(ctx context.Context, a *ui.App, flags *flags) error {
	if flags.query != "" {
		for _, name := range server.Operations() {
			fmt.Fprintln(a.Out, name)
		}
		return nil
	}
	config := stdio.Config{
		In: a.Stdin, Out: a.Stdout,
		ReadOnly: flags.readOnly, StartDirectory: flags.start, Denied: flags.deny,
		Allowed: flags.allow,
	}
	if flags.umask != "" {
		umask, err := site.ParseUmask(flags.umask)
		if err != nil {
			return err
		}
		if err := ui.SetUmask(uint32(umask)); err != nil {
			return fmt.Errorf("-u: %w", err)
		}
	}
	if flags.stderr {
		// sftp-server's default level is ERROR.
		config.Logger = slog.New(site.NewHandler(a.Console, flags.Format,
			flags.Level(slog.LevelWarn)))
	}
	return stdio.Serve(ctx, config)
}

// AsSFTPServer returns the arguments for a program run under the name program: as sftp-server it
// serves standard input, for programs such as scp -D that take a program's name but no flags.
func AsSFTPServer(program string, args []string) []string {
	if name := strings.TrimSuffix(filepath.Base(program), ".exe"); name != "sftp-server" {
		return args
	}
	return append([]string{"serve", "--stdio"}, args...)
}
