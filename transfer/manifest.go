package transfer

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Manifest writes a list of hashes of what was copied, in the form of sha256sum, or of b3sum:
// sorted by the bytes of the names, each name once. The list takes its name when it is complete;
// before that whatever has the name stays as it is. However many files there are, a few MiB of
// memory hold them: the rest goes into a file in the directory for temporary files.
//
// Add may be called by several goroutines. It is for the Done and Kept events:
//
//	if !e.Hash.IsZero() {
//		manifest.Add(e.Name, e.Hash)
//	}
type Manifest struct {
	path   string
	direct bool // what has the name is no regular file, and written as it is

	mu      sync.Mutex
	err     error
	added   int64
	entries []manifestEntry
	size    int
	spilled *os.File
	runs    []int64 // where each begins in spilled, and where the last ends
}

type manifestEntry struct {
	name      string
	number    int64 // of those added: where a name comes twice, the last one counts
	algorithm Algorithm
	sum       [hashSize]byte
}

func (e *manifestEntry) compare(other *manifestEntry) int {
	return cmp.Or(strings.Compare(e.name, other.name), cmp.Compare(e.number, other.number))
}

const (
	// manifestMemory is what entries may take until they are spilled, and entryMemory what one
	// takes besides its name.
	manifestMemory = 4 << 20
	entryMemory    = 96

	// runBuffer is what reading one run takes. A million files are some forty runs.
	runBuffer = 16 << 10
)

// NewManifest begins a list that is to have a name. It fails where no file can be made there.
func NewManifest(name string) (*Manifest, error) {
	resolved, err := followLinks(name)
	if err != nil {
		return nil, err
	}
	m := &Manifest{path: resolved, runs: []int64{0}}
	switch info, err := os.Stat(resolved); {
	case err == nil && info.IsDir():
		return nil, &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
	case err == nil && !info.Mode().IsRegular():
		m.direct = true
		return m, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	// Whether it can be made is found out before anything is copied. It does not stay: it may lie
	// in the tree that is.
	probe := filepath.Join(filepath.Dir(resolved), temporaryName(filepath.Base(resolved)))
	file, err := os.OpenFile(probe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return m, errors.Join(file.Close(), os.Remove(probe))
}

// Add adds a file. Its errors are Commit's too. A name that a list cannot have (see [OpenList]) is
// an error.
func (m *Manifest) Add(name string, h Hash) error {
	clean, err := cleanName(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return m.err
	case err == nil && len(h.Sum) != hashSize:
		err = errors.New("it has no hash")
	}
	if err != nil {
		m.err = &fs.PathError{Op: "list", Path: name, Err: err}
		return m.err
	}
	m.added++
	m.entries = append(m.entries, manifestEntry{name: clean, number: m.added,
		algorithm: h.Algorithm, sum: [hashSize]byte(h.Sum)})
	m.size += len(clean) + entryMemory
	if m.size >= manifestMemory {
		m.err = m.spill()
	}
	return m.err
}

// Added returns how many files have been added.
func (m *Manifest) Added() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.added
}

func (m *Manifest) sort() {
	slices.SortFunc(m.entries, func(a, b manifestEntry) int { return a.compare(&b) })
}

// spill writes the entries that are in memory to the end of the temporary file, sorted. The caller
// holds the lock.
func (m *Manifest) spill() (err error) {
	if m.spilled == nil {
		if m.spilled, err = os.CreateTemp("", "usftp-list-*"); err != nil {
			return err
		}
	}
	m.sort()
	out := bufio.NewWriterSize(m.spilled, passingBuffer)
	end := m.runs[len(m.runs)-1]
	var head []byte
	for i := range m.entries {
		e := &m.entries[i]
		head = binary.AppendUvarint(head[:0], uint64(e.number))
		head = binary.AppendUvarint(head, uint64(len(e.name)))
		head = append(head, e.algorithm[0])
		head = append(head, e.sum[:]...)
		out.Write(head)
		out.WriteString(e.name)
		end += int64(len(head) + len(e.name))
	}
	m.runs = append(m.runs, end)
	clear(m.entries)
	m.entries, m.size = m.entries[:0], 0
	return out.Flush()
}

// manifestRun is one sorted sequence of entries: in the temporary file, or what is still in memory.
type manifestRun struct {
	in     *bufio.Reader
	memory []manifestEntry
	manifestEntry
}

// next moves to the next entry. The error is io.EOF where there is none.
func (r *manifestRun) next() error {
	if r.in == nil {
		if len(r.memory) == 0 {
			return io.EOF
		}
		r.manifestEntry, r.memory = r.memory[0], r.memory[1:]
		return nil
	}
	number, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err // io.EOF at the end
	}
	length, err := binary.ReadUvarint(r.in)
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	rest := make([]byte, 1+hashSize+length)
	if _, err := io.ReadFull(r.in, rest); err != nil {
		return io.ErrUnexpectedEOF
	}
	r.number, r.algorithm, r.name = int64(number), SHA256, string(rest[1+hashSize:])
	if rest[0] == BLAKE3[0] {
		r.algorithm = BLAKE3
	}
	copy(r.sum[:], rest[1:])
	return nil
}

// runHeap has the run with the least entry first.
type runHeap []*manifestRun

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].compare(&h[j].manifestEntry) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*manifestRun)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// write merges the runs into a list.
func (m *Manifest) write(w io.Writer) error {
	m.sort()
	runs := runHeap{&manifestRun{memory: m.entries}}
	for i, end := range m.runs[1:] {
		section := io.NewSectionReader(m.spilled, m.runs[i], end-m.runs[i])
		runs = append(runs, &manifestRun{in: bufio.NewReaderSize(section, runBuffer)})
	}
	waiting := runs[:0]
	for _, r := range runs {
		if err := r.next(); err == nil {
			waiting = append(waiting, r)
		} else if err != io.EOF {
			return err
		}
	}
	heap.Init(&waiting)
	out := bufio.NewWriterSize(w, passingBuffer)
	var line []byte
	for len(waiting) > 0 {
		least := waiting[0]
		e := least.manifestEntry
		switch err := least.next(); err {
		case nil:
			heap.Fix(&waiting, 0)
		case io.EOF:
			heap.Pop(&waiting)
		default:
			return err
		}
		if len(waiting) > 0 && waiting[0].name == e.name { // it was copied again
			continue
		}
		line = appendLine(line[:0], Hash{e.algorithm, e.sum[:]}, e.name)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Commit writes the list and gives it its name. Nothing can be added any more.
func (m *Manifest) Commit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.discard()
	if m.err != nil {
		return m.err
	}
	m.err = fs.ErrClosed
	if m.direct {
		file, err := os.OpenFile(m.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(m.write(file), file.Close())
	}
	perm := fs.FileMode(0o666) // less the umask
	old, err := os.Stat(m.path)
	temporary := filepath.Join(filepath.Dir(m.path), temporaryName(filepath.Base(m.path)))
	file, err2 := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err2 != nil {
		return err2
	}
	if err == nil {
		err = file.Chmod(old.Mode().Perm())
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = m.write(file)
	}
	if err == nil {
		err = file.Sync() // else a crash could leave an empty file under the name of the old list
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(temporary, m.path)
	}
	if err != nil {
		os.Remove(temporary)
	}
	return err
}

// Discard ends it without a list. After Commit it does nothing.
func (m *Manifest) Discard() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = fs.ErrClosed
	m.discard()
}

func (m *Manifest) discard() {
	if m.spilled != nil {
		m.spilled.Close()
		os.Remove(m.spilled.Name())
		m.spilled = nil
	}
	m.entries = nil
}
