package pattern

import (
	"context"
	"io/fs"
	"slices"

	"github.com/usftp/usftp"
)

// mostLooked is how many names are examined at once.
const mostLooked = 128

// ExpandReadable is Expand for files that will be read. It leaves out special files that match
// without being named: opening a named pipe waits for a writer, here and, forever, in the host's
// sftp-server. Links are followed, as they are when a file is read. skipped is called with the
// reason for each file that is left out.
func ExpandReadable(ctx context.Context, client *usftp.Client, pattern, literal string,
	skipped func(name, why string)) ([]string, error) {
	names, err := Expand(ctx, client, pattern, literal)
	if err != nil || len(names) == 1 && names[0] == literal {
		return names, err
	}
	client = client.WithContext(ctx)
	var kept []string
	for some := range slices.Chunk(names, mostLooked) {
		var looking []*usftp.Pending[fs.FileInfo]
		for _, name := range some {
			looking = append(looking, client.Async().Stat(name))
		}
		for i, name := range some {
			info, err := looking[i].WaitContext(ctx)
			if err != nil || !isSpecial(info.Mode()) { // whoever reads it reports the error
				kept = append(kept, name)
				continue
			}
			skipped(name, "it is "+specialKind(info.Mode())+
				", and not read; name it to read from it")
		}
	}
	return kept, nil
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
