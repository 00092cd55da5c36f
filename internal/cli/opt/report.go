package opt

import (
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cli/ui"
)

// Report are the flags that say what is reported.
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

// logger returns the logger that -v asks for.
func (c *Report) logger(to *ui.Console) *slog.Logger {
	if c.Quiet && c.Verbose == 0 { // as ssh -q
		return to.Logger(-1)
	}
	return to.Logger(c.Verbose)
}
