package cli

import (
	"context"
	"log/slog"

	"github.com/usftp/usftp/server/stdio"
)

// serveStdio stands in for OpenSSH's sftp-server(8).
func (a *app) serveStdio(ctx context.Context, flags *serveFlags) error {
	useAllProcessors()
	config := stdio.Config{
		In: a.stdin, Out: a.stdout,
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
		config.Logger = slog.New(&serveHandler{Handler: formatHandler(a.console, flags.logFormat,
			flags.level(slog.LevelWarn))})
	}
	return stdio.Serve(ctx, config)
}
