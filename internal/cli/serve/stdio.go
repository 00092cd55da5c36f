package serve

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/internal/cli/ui"
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
		ReadOnly: flags.readOnly, StartDirectory: flags.start, Denied: flags.deny, Allowed: flags.allow,
	}
	if flags.umask != "" {
		umask, err := parseUmask(flags.umask)
		if err != nil {
			return err
		}
		if err := setUmask(umask); err != nil {
			return err
		}
	}
	if flags.stderr {
		// sftp-server's level is ERROR when none is given.
		config.Logger = slog.New(&logHandler{Handler: formatHandler(a.Console, flags.logFormat,
			flags.level(slog.LevelWarn))})
	}
	return stdio.Serve(ctx, config)
}

// asSftpServer returns the arguments that a program called program stands for: under the name
// sftp-server it is one, for those that take the name of a program and no flags, such as scp -D.
func AsSFTPServer(program string, args []string) []string {
	if name := strings.TrimSuffix(filepath.Base(program), ".exe"); name != "sftp-server" {
		return args
	}
	return append([]string{"serve", "--stdio"}, args...)
}
