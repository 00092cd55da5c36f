// Package stdio replaces OpenSSH's sftp-server: it serves the whole file system, with the rights of
// the process, to a client on standard input and output. The Subsystem line in sshd_config names
// the command that calls it.
package stdio

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// Config corresponds to sftp-server's flags. The zero Config is sftp-server without flags.
//
// Its flag -u, a umask that replaces the process's, is left to the caller, since a library does not
// change the process.
type Config struct {
	In, Out *os.File // nil means standard input and output

	ReadOnly bool // -R: refuse all changes
	// -d: the directory where relative paths start; may contain %d (the home directory), %u (the
	// user) and %%; "" means the working directory
	StartDirectory string
	Denied         []string // -P: requests to refuse, see server.Operations
	Allowed        []string // -p: if not empty, the only requests to allow

	Logger *slog.Logger // must not write to Out; nil logs nothing
}

// Serve serves one client until it leaves or ctx ends, and then closes both files, also standard
// input and output. It returns [server.Serve]'s result, or the reason why StartDirectory cannot be
// used.
func Serve(ctx context.Context, config Config) error {
	start, err := config.startDirectory()
	if err != nil {
		return err
	}
	in, out := cmp.Or(config.In, os.Stdin), cmp.Or(config.Out, os.Stdout)
	fs := osfs.Host()
	defer fs.Close()
	return server.Serve(ctx, server.Pipes(in, out), fs, &server.Options{
		Policy: server.Policy{
			ReadOnly: config.ReadOnly,
			Allowed:  config.Allowed,
			Denied:   config.Denied,
			Home:     start,
		},
		Logger: config.Logger,
	})
}

// startDirectory expands the tokens of sftp-server's -d.
func (c *Config) startDirectory() (string, error) {
	if c.StartDirectory == "" {
		dir, err := os.Getwd()
		return clientPath(dir), err
	}
	var b strings.Builder
	for rest := c.StartDirectory; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		value, err := token(after)
		if err != nil {
			return "", fmt.Errorf("start directory %q: %w", c.StartDirectory, err)
		}
		b.WriteString(value)
		rest = after[1:]
	}
	dir, err := filepath.Abs(b.String())
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("start directory: %w", err)
	} else if !info.IsDir() {
		return "", fmt.Errorf("start directory %s: not a directory", dir)
	}
	return clientPath(dir), nil
}

// token returns the value of the token at the beginning of rest.
func token(rest string) (string, error) {
	switch {
	case strings.HasPrefix(rest, "%"):
		return "%", nil
	case strings.HasPrefix(rest, "d"):
		return os.UserHomeDir()
	case strings.HasPrefix(rest, "u"):
		u, err := user.Current()
		if err != nil {
			return "", err
		}
		return u.Username, nil
	}
	return "", fmt.Errorf("unknown token %%%.1s; use %%d, %%u or %%%%", rest)
}

// clientPath converts a system path to a client's.
func clientPath(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // C:/ on Windows
	}
	return dir
}
