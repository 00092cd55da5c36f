// Package stdio stands in for OpenSSH's sftp-server: it serves the whole file system, with the
// rights of the process, to the client at standard input and output. sshd_config's Subsystem line
// names the command that calls it.
package stdio

import (
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

// Config says what sftp-server's flags say. The zero Config is what it does without any.
//
// Its flag -u, a umask that replaces the process's, is the command's to carry out: a library does
// not change the process.
type Config struct {
	In, Out *os.File // standard input and output when nil

	ReadOnly bool // -R: nothing is changed
	// -d: where relative paths begin, may hold %d (the home), %u (the user) and %%; the working
	// directory when ""
	StartDirectory string
	Denied         []string // -P: requests that are refused, see server.Operations
	Allowed        []string // -p: when not empty, the only requests that are not

	Logger *slog.Logger // must not write to Out; nil is silent
}

// Serve serves one client until it leaves or ctx ends. A file of Config that is a pipe is closed in
// the end, as are standard input and output.
func Serve(ctx context.Context, config Config) error {
	start, err := config.startDirectory()
	if err != nil {
		return err
	}
	in, out := config.In, config.Out
	if in == nil {
		in = os.Stdin
	}
	if out == nil {
		out = os.Stdout
	}
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

// token returns what the token that rest begins with stands for.
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
	return "", fmt.Errorf("%%%.1s is not a token; use %%d, %%u or %%%%", rest)
}

// clientPath is how clients write a path of the system.
func clientPath(dir string) string {
	dir = filepath.ToSlash(dir)
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // C:/ on Windows
	}
	return dir
}
