package opt

import (
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cli/ui"
)

// Report say what is told of the work.
type Report struct {
	Quiet, NoProgress, JSON bool
	Verbose                 int
}

func (c *Report) Register(f *pflag.FlagSet) {
	f.BoolVarP(&c.Quiet, "quiet", "q", false, "no progress line, no banner, no notes; errors only")
	f.CountVarP(&c.Verbose, "verbose", "v", "say what is done; twice: say more")
	f.BoolVar(&c.NoProgress, "no-progress", false, "no progress line")
	f.BoolVar(&c.JSON, "json", false, "write events to standard output, one JSON object a line")
}

// logger gives what -v shows.
func (c *Report) logger(to *ui.Console) *slog.Logger {
	if c.Quiet && c.Verbose == 0 {
		return to.Logger(-1)
	}
	return to.Logger(c.Verbose)
}
