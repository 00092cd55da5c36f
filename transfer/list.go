package transfer

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
)

// ErrList says that a file is not what a list says that it is.
var ErrList = errors.New("it is not what the list says")

// List is a list of hashes as sha256sum and b3sum write it, with which copies are compared; see
// Options.List. It keeps 24 bytes of memory for each line, and the file open. Its methods may be
// called by several goroutines; nil is a list with nothing in it.
type List struct {
	file      *os.File
	algorithm Algorithm
	seed      maphash.Seed

	mu    sync.Mutex
	lines []listLine // by key
}

// listLine is where a line is. The name is looked up there: a key is only likely to be of one name.
type listLine struct {
	key    uint64 // of the name
	off    int64
	length int32
	met    bool // its file has been copied, or has failed
}

// longestLine is more than a path and a hash may take.
const longestLine = 64 << 10

// OpenList reads a list. Its lines must all be by one algorithm, which lines do not tell; empty
// ones and those that begin with # are passed over. A line that cannot be used, or a name that is
// absolute, has NUL or .. in it, is a [*ListError].
func OpenList(name string, algorithm Algorithm) (*List, error) {
	if _, err := ParseAlgorithm(string(algorithm)); err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	l := &List{file: file, algorithm: algorithm, seed: maphash.MakeSeed()}
	if err := l.read(); err != nil {
		file.Close()
		return nil, err
	}
	return l, nil
}

func (l *List) read() error {
	in := bufio.NewReaderSize(l.file, longestLine)
	var off int64
	for number := 1; ; number++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			l.sort()
			return nil
		case err == bufio.ErrBufferFull:
			return &ListError{l.file.Name(), number, errNoLine}
		case err != nil && err != io.EOF:
			return err
		}
		at := off
		off += int64(len(line))
		text := cutNewline(line)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		_, name, parseErr := parseLine(text, l.algorithm)
		if parseErr != nil {
			return &ListError{l.file.Name(), number, parseErr}
		}
		l.lines = append(l.lines, listLine{key: maphash.String(l.seed, name), off: at,
			length: int32(len(text))})
	}
}

func cutNewline(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		return line[:n-1]
	}
	return line
}

func (l *List) sort() {
	slices.SortFunc(l.lines, func(a, b listLine) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.off, b.off))
	})
}

// Close closes the list's file.
func (l *List) Close() error { return l.file.Close() }

// Algorithm returns the algorithm of the list's hashes.
func (l *List) Algorithm() Algorithm { return l.algorithm }

// Len returns how many lines there are.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.lines)
}

// at reads a line again.
func (l *List) at(line listLine) (sum []byte, name string, err error) {
	text := make([]byte, line.length)
	if _, err := l.file.ReadAt(text, line.off); err != nil {
		return nil, "", err
	}
	return parseLine(text, l.algorithm)
}

// find counts the lines of a name as met, and returns their hashes.
func (l *List) find(name string) (sums [][]byte, err error) {
	sums, _, err = l.meet(name)
	return sums, err
}

// meet is find, and tells whether the name has not been met before.
func (l *List) meet(name string) (sums [][]byte, first bool, err error) {
	key := maphash.String(l.seed, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	i, _ := slices.BinarySearchFunc(l.lines, key,
		func(line listLine, key uint64) int { return cmp.Compare(line.key, key) })
	for ; i < len(l.lines) && l.lines[i].key == key; i++ {
		sum, found, err := l.at(l.lines[i])
		if err != nil {
			return nil, false, fmt.Errorf("%w: it has changed meanwhile: %v", ErrList, err)
		}
		if found == name {
			first = first || !l.lines[i].met
			l.lines[i].met = true
			sums = append(sums, sum)
		}
	}
	return sums, first, nil
}

// forget counts nothing as met.
func (l *List) forget() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.lines {
		l.lines[i].met = false
	}
}

// Check compares the hash of a file with that of its name, and counts it as met. listed is false
// where the list does not have the name. The error is ErrList where the hash is another.
func (l *List) Check(name string, h Hash) (listed bool, err error) {
	if l == nil {
		return false, nil
	}
	sums, err := l.find(name)
	if err != nil {
		return true, err
	}
	for _, sum := range sums {
		if !h.Equal(Hash{l.algorithm, sum}) {
			return true, fmt.Errorf("%w: its hash is %v, and should be %v", ErrList, h,
				Hash{l.algorithm, sum})
		}
	}
	return len(sums) > 0, nil
}

// Missing returns the names that no copy has met, in the list's order. It is for when all is done.
func (l *List) Missing() iter.Seq[string] {
	return func(yield func(string) bool) {
		if l == nil {
			return
		}
		l.mu.Lock()
		var missing []listLine
		for _, line := range l.lines {
			if !line.met {
				missing = append(missing, line)
			}
		}
		l.mu.Unlock()
		slices.SortFunc(missing, func(a, b listLine) int { return cmp.Compare(a.off, b.off) })
		for _, line := range missing {
			if _, name, err := l.at(line); err == nil && !yield(name) {
				return
			}
		}
	}
}

// met counts a file that has failed: that it is missing need not be said too.
func (l *List) met(names []string) {
	if l == nil {
		return
	}
	for _, name := range names {
		if sums, _ := l.find(name); len(sums) > 0 {
			return
		}
	}
}

// algorithm is by what files are hashed.
func (o *Options) algorithm() Algorithm {
	if o.List != nil {
		return o.List.algorithm
	}
	return o.Hash
}

// names are what a list may call the file, the likeliest first: its path below the directory that
// was named as the target, below the source, or below where the source lies, as in the list that
// was made when the source was copied there.
func (r *run) names() []string {
	source := r.Source
	if r.item != nil {
		source = r.item.dir.tree.Source
	}
	base := path.Base(path.Clean(source))
	if r.Direction == Upload || r.Direction == Local {
		base = filepath.Base(filepath.Clean(source))
	}
	if r.item == nil {
		return []string{r.name, base}
	}
	return []string{r.name, r.item.rel(), path.Join(base, r.item.rel())}
}

// checkList compares what has passed with the list. What a list does not have is told, and no
// failure: a list seldom has itself.
func (r *run) checkList() error {
	if r.Options.List == nil {
		return nil
	}
	for _, name := range r.names() {
		if listed, err := r.Options.List.Check(name, r.hash); listed {
			return err
		}
	}
	r.note("it is not in the list of hashes")
	return nil
}
