package pattern

import (
	"context"
	"io/fs"

	"github.com/usftp/usftp"
)

// mostLooked is how many names are examined at once.
const mostLooked = 128

// WithoutSpecial leaves out special files that match a pattern without being named: opening a named
// pipe waits for a writer, here and, forever, in the host's sftp-server. Links are followed, as they
// are when a file is read. skipped is called with why each is left out.
func WithoutSpecial(ctx context.Context, client *usftp.Client, names []string,
	skipped func(name, why string)) []string {
	client = client.WithContext(ctx)
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
			if err != nil || !isSpecial(info.Mode()) { // whoever reads it reports that it does not exist
				kept = append(kept, name)
				continue
			}
			skipped(name, "it is "+specialKind(info.Mode())+", and not read; name it to read from it")
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
