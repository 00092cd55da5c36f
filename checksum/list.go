package checksum

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// ErrMismatch reports that a file's hash is not the one in the list, or that the list changed while
// it was used, so that it is unknown.
var ErrMismatch = errors.New("hash differs from the list")

// A List is a list of hashes to compare files with. It keeps 24 bytes of memory per line and the
// file open; of a pipe, all of the text. It is safe for concurrent use. A nil List is empty.
type List struct {
	file      *os.File
	text      io.ReaderAt // the file, or what a pipe had
	algorithm Algorithm
	seed      maphash.Seed

	mu    sync.Mutex
	lines []indexed // by key
}

// indexed locates a line. The name is read from the file again, because two names may share a key.
type indexed struct {
	key    uint64 // of the name
	off    int64
	length int32
	met    bool // Find or Check has seen the name
}

// longestLine is more than a path and a hash can take.
const longestLine = 64 << 10

// Open reads a list, also in the form of sha256sum --tag. Other lines do not name their algorithm,
// so the caller does, for all of them. Empty lines and lines that begin with # are ignored. A line
// that cannot be parsed, or whose name is absolute or contains NUL or "..", is a [*LineError]. The
// caller must close the List.
func Open(name string, algorithm Algorithm) (*List, error) {
	if _, err := ParseAlgorithm(string(algorithm)); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l := &List{file: file, text: file, algorithm: algorithm, seed: maphash.MakeSeed()}
	if info, statErr := file.Stat(); statErr == nil && !info.Mode().IsRegular() {
		var text []byte
		text, err = io.ReadAll(file)
		l.text = bytes.NewReader(text)
	}
	if err == nil {
		err = l.index()
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return l, nil
}

func (l *List) index() error {
	in := bufio.NewReaderSize(io.NewSectionReader(l.text, 0, math.MaxInt64), longestLine)
	var off int64
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			slices.SortFunc(l.lines, func(a, b indexed) int {
				return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.off, b.off))
			})
			return nil
		case err == bufio.ErrBufferFull:
			return &LineError{l.file.Name(), number, errMalformed}
		case err != nil && err != io.EOF:
			return err
		}
		at := off
		off += int64(len(line))
		text := bytes.TrimSuffix(line, []byte("\n"))
		if len(bytes.TrimSuffix(text, []byte("\r"))) == 0 || text[0] == '#' {
			continue
		}
		_, name, parseErr := parseLine(text, l.algorithm)
		if parseErr != nil {
			return &LineError{l.file.Name(), number, parseErr}
		}
		l.lines = append(l.lines, indexed{key: maphash.String(l.seed, name), off: at,
			length: int32(len(text))})
	}
}

// Close closes the list's file.
func (l *List) Close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

// Algorithm returns the algorithm of the list's hashes, "" if the list is nil.
func (l *List) Algorithm() Algorithm {
	if l == nil {
		return ""
	}
	return l.algorithm
}

// Len returns the number of lines.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.lines)
}

// line reads a line again. Its name must still have the same key: in a list that has changed, what
// else is listed cannot be trusted either.
func (l *List) line(at indexed) (sum []byte, name string, err error) {
	text := make([]byte, at.length)
	if _, err = l.text.ReadAt(text, at.off); err == nil {
		sum, name, err = parseLine(text, l.algorithm)
	}
	if err == nil && maphash.String(l.seed, name) != at.key {
		err = errOtherName
	}
	if err != nil {
		return nil, "", &changedError{l.file.Name(), err}
	}
	return sum, name, nil
}

// A changedError reports that a list changed while it was used.
type changedError struct {
	list   string
	reason error
}

func (e *changedError) Error() string {
	return fmt.Sprintf("%s changed while it was used: %v", e.list, e.reason)
}

func (e *changedError) Unwrap() []error { return []error{ErrMismatch, e.reason} }

// Find marks a name as met and reports whether the list has it, and whether it was met before. The
// error matches ErrMismatch if the list's file has changed so that its line cannot be read again.
func (l *List) Find(name string) (listed, before bool, err error) {
	if l == nil {
		return false, false, nil
	}
	sums, before, err := l.find(name)
	return len(sums) > 0, before, err
}

func (l *List) find(name string) (sums [][]byte, before bool, err error) {
	key := maphash.String(l.seed, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.lines, key,
		func(line indexed, key uint64) int { return cmp.Compare(line.key, key) })
	before = true
	for ; i < len(l.lines) && l.lines[i].key == key; i++ {
		sum, found, err := l.line(l.lines[i])
		if err != nil {
			return nil, false, err
		}
		if found == name {
			before = before && l.lines[i].met
			l.lines[i].met = true
			sums = append(sums, sum)
		}
	}
	return sums, before && len(sums) > 0, nil
}

// Reset marks every name as not met.
func (l *List) Reset() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		l.lines[i].met = false
	}
}

// Check compares a file's hash with the one listed under its name and marks the name as met. It
// reports whether the name is listed. The error matches ErrMismatch if the hash differs, or as for
// Find.
func (l *List) Check(name string, h Hash) (listed bool, err error) {
	if l == nil {
		return false, nil
	}
	sums, _, err := l.find(name)
	if err != nil {
		return true, err
	}
	for _, sum := range sums {
		if want := (Hash{l.algorithm, sum}); !h.Equal(want) {
			return true, fmt.Errorf("%w: it is %v and should be %v", ErrMismatch, h, want)
		}
	}
	return len(sums) > 0, nil
}

// Missing returns the names that have not been met, in the list's order. An error ends it and
// matches ErrMismatch: the list's file has changed so that a name cannot be read again.
func (l *List) Missing() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if l == nil {
			return
		}
		l.mu.Lock()
		var missing []indexed
		for _, line := range l.lines {
			if !line.met {
				missing = append(missing, line)
			}
		}
		l.mu.Unlock()
		slices.SortFunc(missing, func(a, b indexed) int { return cmp.Compare(a.off, b.off) })
		for _, line := range missing {
			_, name, err := l.line(line)
			if !yield(name, err) || err != nil {
				return
			}
		}
	}
}

// A line of sha256sum or b3sum is the hash in hexadecimal, two spaces (or a space and a star), the
// name, and a newline. Backslashes, newlines and carriage returns in the name are escaped, and the
// line then begins with a backslash. b3sum has no escape for carriage returns and leaves them.

var (
	blake3Escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	sha256Escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`)
)

// appendLine appends a file's line.
func appendLine(b []byte, h Hash, name string) []byte {
	if name == "-" { // it would mean standard input
		name = "./-"
	}
	escapes := sha256Escapes
	if h.Algorithm == BLAKE3 {
		escapes = blake3Escapes
	}
	escaped := escapes.Replace(name)
	if escaped != name {
		b = append(b, '\\')
	}
	b = hex.AppendEncode(b, h.Sum)
	b = append(b, "  "...)
	b = append(b, escaped...)
	return append(b, '\n')
}

var (
	errMalformed = errors.New("not a hash and a name")
	errUnsafe    = errors.New("name is empty or leads out of the directory")
	errOtherSum  = errors.New("hash is of another algorithm")
	errOtherName = errors.New("a line has another name")
)

// parseLine parses a line without its newline. It also takes the form with the algorithm's name
// (sha256sum --tag). The name is clean and stays below the directory that the list belongs to.
func parseLine(line []byte, algorithm Algorithm) (sum []byte, name string, err error) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	line, escaped := bytes.CutPrefix(line, []byte(`\`))
	digits, rest, tagged := cutTag(line)
	if !tagged {
		if len(line) < 2*hashSize+3 || line[2*hashSize] != ' ' ||
			line[2*hashSize+1] != ' ' && line[2*hashSize+1] != '*' {
			return nil, "", errMalformed
		}
		digits, rest = line[:2*hashSize], line[2*hashSize+2:]
	} else if tag := line[:bytes.IndexByte(line, ' ')]; !strings.EqualFold(string(tag),
		string(algorithm)) {
		return nil, "", errOtherSum
	}
	sum = make([]byte, hashSize)
	if n, err := hex.Decode(sum, digits); err != nil || n != hashSize {
		return nil, "", errMalformed
	}
	name = string(rest)
	if escaped {
		if name, err = unescape(name); err != nil {
			return nil, "", err
		}
	}
	name, err = cleanName(name)
	return sum, name, err
}

// cutTag splits "ALGORITHM (name) = hash".
func cutTag(line []byte) (digits, name []byte, ok bool) {
	open := bytes.Index(line, []byte(" ("))
	end := len(line) - 2*hashSize
	if open < 1 || bytes.IndexByte(line[:open], ' ') >= 0 || end < open+6 ||
		string(line[end-4:end]) != ") = " {
		return nil, nil, false
	}
	return line[end:], line[open+2 : end-4], true
}

func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '\\' {
			i++
			switch {
			case i < len(name) && name[i] == 'n':
				c = '\n'
			case i < len(name) && name[i] == 'r':
				c = '\r'
			case i < len(name) && name[i] == '\\':
			default:
				return "", errMalformed
			}
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// cleanName refuses names that lead elsewhere: a list often comes from a stranger.
func cleanName(name string) (string, error) {
	if name == "" || name[0] == '/' || strings.IndexByte(name, 0) >= 0 ||
		slices.Contains(strings.Split(name, "/"), "..") {
		return "", errUnsafe
	}
	if name = path.Clean(name); name == "." {
		return "", errUnsafe
	}
	return name, nil
}

// A LineError names the line of a list that cannot be parsed. errors.Is(err, ErrMismatch) holds.
type LineError struct {
	File string
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s, line %d: %v", e.File, e.Line, e.Err) }

// Unwrap returns ErrMismatch and the reason.
func (e *LineError) Unwrap() []error { return []error{ErrMismatch, e.Err} }
