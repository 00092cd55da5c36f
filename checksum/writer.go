package checksum

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
	"syscall"

	"github.com/usftp/usftp/internal/localfs"
)

// A Writer writes a list of hashes in the format of sha256sum or b3sum, sorted by the bytes of the
// names, each name once. An existing file with the list's name is unchanged until Commit. A few MiB
// of memory serve any number of files: the rest goes to a file in the directory for temporary
// files.
//
// It is safe for concurrent use.
type Writer struct {
	path   string
	direct bool // the target is not a regular file, and is written in place

	mu      sync.Mutex
	err     error
	added   int64
	entries []entry
	size    int
	spilled *localfs.NamelessFile
	runs    []int64 // where each sorted run begins in spilled, and where the last one ends
}

type entry struct {
	name      string
	number    int64 // order of Add: the last entry of a name counts
	algorithm Algorithm
	sum       [hashSize]byte
}

func (e *entry) compare(other *entry) int {
	return cmp.Or(strings.Compare(e.name, other.name), cmp.Compare(e.number, other.number))
}

const (
	memory      = 4 << 20 // entries are spilled beyond this
	entryMemory = 96      // per entry, besides its name

	// runBuffer is the memory for reading one run. A million files make about forty runs.
	runBuffer   = 16 << 10
	writeBuffer = 256 << 10
)

// Create begins a list with the given name. It fails if no file can be created there.
func Create(name string) (*Writer, error) {
	w := &Writer{path: name, runs: []int64{0}}
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return nil, &fs.PathError{Op: "write", Path: name, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular(): // /dev/stdout may be a pipe, which has no name
		w.direct = true
		return w, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if w.path, err = localfs.FollowLinks(name); err != nil {
		return nil, err
	}
	// Fail before anything is copied rather than after. The probe is removed at once: the list may
	// lie in the tree that is being copied.
	probe, err := w.temporary()
	if err != nil {
		return nil, err
	}
	return w, cmp.Or(probe.Close(), os.Remove(probe.Name()))
}

func (w *Writer) temporary() (*os.File, error) {
	dir, base := filepath.Split(w.path)
	return os.OpenFile(filepath.Join(dir, localfs.TempName(base)),
		os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}

// Add adds a file. Commit returns any error again. A name that a list cannot contain (see [Open])
// is an error.
func (w *Writer) Add(name string, h Hash) error {
	clean, err := cleanName(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.err != nil:
		return w.err
	case err == nil && len(h.Sum) != hashSize:
		err = errors.New("has no hash")
	}
	if err != nil {
		w.err = &fs.PathError{Op: "list", Path: name, Err: err}
		return w.err
	}
	w.added++
	w.entries = append(w.entries, entry{clean, w.added, h.Algorithm, [hashSize]byte(h.Sum)})
	w.size += len(clean) + entryMemory
	if w.size >= memory {
		w.err = w.spill()
	}
	return w.err
}

// Added returns how many files have been added.
func (w *Writer) Added() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.added
}

func (w *Writer) sort() {
	slices.SortFunc(w.entries, func(a, b entry) int { return a.compare(&b) })
}

// spill appends the entries in memory to the temporary file as a sorted run. The caller holds the
// lock.
func (w *Writer) spill() (err error) {
	if w.spilled == nil {
		if w.spilled, err = localfs.NewNamelessFile("usftp-list-*"); err != nil {
			return err
		}
	}
	w.sort()
	out := bufio.NewWriterSize(w.spilled, writeBuffer)
	end := w.runs[len(w.runs)-1]
	var head []byte
	for i := range w.entries {
		e := &w.entries[i]
		head = binary.AppendUvarint(head[:0], uint64(e.number))
		head = binary.AppendUvarint(head, uint64(len(e.name)))
		head = append(append(head, e.algorithm[0]), e.sum[:]...)
		out.Write(head)
		out.WriteString(e.name)
		end += int64(len(head) + len(e.name))
	}
	w.runs = append(w.runs, end)
	clear(w.entries)
	w.entries, w.size = w.entries[:0], 0
	return out.Flush()
}

// run is a sorted sequence of entries, in the temporary file or still in memory.
type run struct {
	in     *bufio.Reader
	memory []entry
	entry
}

// next moves to the next entry. The error is io.EOF at the end.
func (r *run) next() error {
	if r.in == nil {
		if len(r.memory) == 0 {
			return io.EOF
		}
		r.entry, r.memory = r.memory[0], r.memory[1:]
		return nil
	}
	number, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err
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

// runHeap has the run with the smallest entry first.
type runHeap []*run

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].compare(&h[j].entry) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// merge writes the runs as one list.
func (w *Writer) merge(to io.Writer) error {
	w.sort()
	runs := runHeap{&run{memory: w.entries}}
	for i, end := range w.runs[1:] {
		section := io.NewSectionReader(w.spilled, w.runs[i], end-w.runs[i])
		runs = append(runs, &run{in: bufio.NewReaderSize(section, runBuffer)})
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
	out := bufio.NewWriterSize(to, writeBuffer)
	var line []byte
	for len(waiting) > 0 {
		least := waiting[0]
		e := least.entry
		switch err := least.next(); err {
		case nil:
			heap.Fix(&waiting, 0)
		case io.EOF:
			heap.Pop(&waiting)
		default:
			return err
		}
		if len(waiting) > 0 && waiting[0].name == e.name { // the later entry counts
			continue
		}
		line = appendLine(line[:0], Hash{e.algorithm, e.sum[:]}, e.name)
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Commit writes the list under its name. Nothing can be added afterwards.
func (w *Writer) Commit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.discard()
	if w.err != nil {
		return w.err
	}
	w.err = fs.ErrClosed
	if w.direct {
		file, err := os.OpenFile(w.path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return cmp.Or(w.merge(file), file.Close())
	}
	file, err := w.temporary()
	if err != nil {
		return err
	}
	if old, statErr := os.Stat(w.path); statErr == nil {
		err = file.Chmod(old.Mode().Perm())
	} else if !errors.Is(statErr, fs.ErrNotExist) {
		err = statErr
	}
	if err == nil {
		err = w.merge(file)
	}
	if err == nil {
		err = file.Sync() // else a crash could leave an empty file under the list's name
	}
	if err = cmp.Or(err, file.Close()); err == nil {
		err = localfs.ReplaceFile(file.Name(), w.path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// Discard ends the Writer without a list. After Commit it does nothing.
func (w *Writer) Discard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = fs.ErrClosed
	w.discard()
}

func (w *Writer) discard() {
	if w.spilled != nil {
		w.spilled.Close()
		w.spilled = nil
	}
	w.entries = nil
}
