package opt

import (
	"log/slog"

	"github.com/spf13/pflag"
)

// Report holds the flags about reports.
type Report struct {
	Quiet, NoProgress, JSON bool
	Verbose                 int
}

func (c *Report) Register(f *pflag.FlagSet) {
	f.BoolVarP(&c.Quiet, "quiet", "q", false, "print only errors, and warnings about files")
	f.CountVarP(&c.Verbose, "verbose", "v", "print what is done; repeat for more")
	f.BoolVar(&c.NoProgress, "no-progress", false, "do not show progress")
	f.BoolVar(&c.JSON, "json", false, "print events to standard output, one JSON object per line")
}

// Level returns the level at which connections are logged. As with ssh, -v overrides -q.
func (c *Report) Level() slog.Level {
	switch {
	case c.Verbose > 1:
		return slog.LevelDebug
	case c.Verbose == 1:
		return slog.LevelInfo
	case c.Quiet:
		return slog.LevelError
	}
	return slog.LevelWarn
}
