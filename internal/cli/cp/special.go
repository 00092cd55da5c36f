package cp

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// mostLooked is how many names are examined at once.
const mostLooked = 128

// withoutSpecial leaves out special files that match a pattern without being named: opening a named
// pipe waits for a writer, here and, forever, in the host's sftp-server. Links are followed, as the
// copy follows them. A special file that was named explicitly is kept.
func (c *Copier) withoutSpecial(ctx context.Context, host pool.Host, names []string) []string {
	client := host.Client.WithContext(ctx)
	var kept []string
	for len(names) > 0 {
		some := names[:min(len(names), mostLooked)]
		names = names[len(some):]
		var looking []*usftp.Pending[fs.FileInfo]
		for _, name := range some {
			looking = append(looking, client.Async().Stat(name))
		}
		for i, name := range some {
			info, err := looking[i].WaitContext(ctx)
			if err != nil || !isSpecial(info.Mode()) { // if it does not exist, the copy says so
				kept = append(kept, name)
				continue
			}
			e := transfer.Event{Kind: transfer.Skipped, Time: time.Now(),
				Route: transfer.Route{SourceHost: host.Name, Source: name},
				Message: fmt.Sprintf("it is %s, and not copied; name it to read from it",
					specialKind(info.Mode()))}
			if c.options.Events != nil {
				c.options.Events(e)
			}
		}
	}
	return kept
}

func isSpecial(mode fs.FileMode) bool {
	return mode&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeCharDevice) != 0
}

func specialKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}
