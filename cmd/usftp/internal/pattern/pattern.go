// Package pattern finds the files on a host that match a path with wildcards.
package pattern

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/scp"
)

// ErrNoMatch reports that no file matches a pattern.
var ErrNoMatch = errors.New("no match on the host")

// Has reports whether a path as typed is a pattern.
func Has(name string) bool { return strings.ContainsAny(name, "*?[") }

// Unescape returns the path of a file whose name was typed with backslashes, as for the shell that
// scp once ran on the host: 'host:sp\ ace'. If a file has exactly the typed name, that file is
// meant. The first from bytes were not typed.
func Unescape(client *usftp.Client, name string, from int) string {
	if _, err := client.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return name
	}
	plain := name[:from] + scp.Unquote(name[from:])
	if _, err := client.Lstat(plain); err != nil {
		return name
	}
	return plain
}

// Expand returns the names on a host that match a pattern, sorted, or else the file with exactly
// the name literal. As in a shell, names that begin with a dot must be matched explicitly. If there
// is neither, the error is ErrNoMatch.
func Expand(ctx context.Context, client *usftp.Client, pattern, literal string) ([]string, error) {
	client, pattern = client.WithContext(ctx), scp.PathPattern(pattern)
	names, err := client.Glob(pattern)
	names = slices.DeleteFunc(names, func(name string) bool { return localfs.Hidden(pattern, name) })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// Some of the files would be worse than none.
	if err != nil && !errors.Is(err, path.ErrBadPattern) {
		return nil, err
	}
	// The file may have exactly this name, and its directory may not be listable.
	if len(names) == 0 {
		if _, statErr := client.Lstat(literal); statErr == nil {
			return []string{literal}, nil
		}
		return nil, ErrNoMatch
	}
	for _, name := range names {
		if err := checkMatch(pattern, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// mostLooked is how many names are examined at once.
const mostLooked = 128

// ExpandReadable expands a pattern for files to be read. It leaves out special files that match
// without being named: opening a named pipe waits for a writer, here and, forever, in the host's
// sftp-server. It follows links, as reading does. It calls skipped with the reason for each file
// left out.
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
			kind := ""
			if err == nil { // otherwise reading the file reports the error
				kind = specialKind(info.Mode())
			}
			if kind == "" {
				kept = append(kept, name)
				continue
			}
			skipped(name, "it is "+kind+", and not read; name it to read from it")
		}
	}
	return kept, nil
}

// specialKind returns the kind of a special file, and "" for any other file.
func specialKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&(fs.ModeDevice|fs.ModeCharDevice) != 0:
		return "a device"
	}
	return ""
}

// checkMatch makes sure that a name's last element, which becomes the copy's name, matches the
// pattern. Otherwise a server that answers a listing of "*.txt" with other names could have files
// overwritten that the user did not mean, and in other directories.
func checkMatch(pattern, name string) error {
	base := path.Base(name)
	matches, err := path.Match(path.Base(pattern), base)
	if err != nil || !matches || base == "." || base == ".." ||
		strings.ContainsAny(base, "/\x00") {
		return fmt.Errorf("the server answered with the name %q, which was not asked for", name)
	}
	return nil
}
