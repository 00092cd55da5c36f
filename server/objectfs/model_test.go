package objectfs_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// model is what files should hold.
type model struct {
	*bench
	random *rand.Rand
	files  map[string][]byte
	open   map[string]*opened
	failed int // writes that the storage of parts does not allow
}

// opened is a file that is being written.
type opened struct {
	writer writer
	data   []byte
	failed bool
}

// TestModel: clients that write in any order, cut off, rename, remove and truncate see what they
// would see in a directory, where a file appears when it is closed. They take turns, so a file that
// waits for memory gets that of one that is idle.
func TestModel(t *testing.T) {
	for seed := range soak.Pick(200, 500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runModel(t, int64(seed)) })
		})
	}
}

func runModel(t *testing.T, seed int64) {
	m := &model{bench: newBench(t), random: rand.New(rand.NewSource(seed)),
		files: map[string][]byte{}, open: map[string]*opened{}}
	for range 200 {
		m.step()
		if t.Failed() {
			return
		}
	}
	for name := range m.open {
		m.end(name, true)
	}
	m.check()
	if n := m.fs.Memory().Out(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

func (m *model) name() string {
	return fmt.Sprintf("/f%d", m.random.Intn(4)) + []string{"", ".filepart"}[m.random.Intn(2)]
}

func (m *model) step() {
	name := m.name()
	o := m.open[name]
	switch n := m.random.Intn(20); {
	case o == nil && n < 8:
		m.begin(name)
	case o == nil && n < 12:
		m.rename(name, strings.TrimSuffix(name, ".filepart"))
	case o == nil && n < 14:
		m.rename(name, m.name())
	case o == nil && n < 15:
		err := m.fs.Remove(context.Background(), name)
		if _, ok := m.files[name]; ok != (err == nil) && ok {
			m.Errorf("removing %s: %v", name, err)
		}
		delete(m.files, name)
	case o == nil && n < 17:
		m.resize(name)
	case o == nil:
		m.check()
	case n < 12:
		m.writeSome(o)
	case n < 14 && len(o.data) < 6*partSize && !o.failed:
		size := m.random.Intn(8 * partSize)
		if err := o.writer.Setstat(sized(int64(size))); err == nil {
			o.data = resized(o.data, size)
		} else {
			m.isUnsupported(err)
		}
	case n < 17:
		m.end(name, true)
	default:
		m.end(name, false)
	}
}

// begin opens a file, whether it is there or not.
func (m *model) begin(name string) {
	flags := []uint32{create, truncate, create | wire.OpenExclusive,
		wire.OpenWrite}[m.random.Intn(4)]
	old, exists := m.files[name]
	pending := false
	if _, err := m.fs.Stat(context.Background(), name); err == nil && !exists {
		pending = true // an abandoned upload
	}
	f, err := m.open2(name, flags)
	switch {
	case flags&wire.OpenExclusive != 0 && exists:
		m.is(err, fs.ErrExist)
		return
	case flags == wire.OpenWrite && !exists && !pending:
		m.is(err, fs.ErrNotExist)
		return
	case err != nil:
		m.Fatalf("opening %s with %x: %v", name, flags, err)
	}
	o := &opened{writer: f}
	info, err := f.Stat()
	m.must(err)
	switch {
	case flags&wire.OpenTruncate != 0:
		if _, stored := m.bucket.Objects()[name[1:]]; exists && !stored {
			delete(m.files, name) // an upload that waited for its final name has begun again
		}
	case exists:
		o.data = slices.Clone(old)
	case pending && info.Size() > 0:
		// What is kept is the beginning of what a client has sent, which the model does not know.
		m.must(f.Abandon())
		return
	}
	if info.Size() != int64(len(o.data)) {
		m.Errorf("%s has %d bytes when it is opened, want %d", name, info.Size(), len(o.data))
	}
	m.open[name] = o
}

func (m *model) open2(name string, flags uint32) (writer, error) {
	f, err := m.bench.open(name, flags)
	if err != nil {
		return nil, err
	}
	return f.(writer), nil
}

// isUnsupported checks why a write fails: what has been stored cannot change, and what is idle
// gives way to others.
func (m *model) isUnsupported(err error) {
	m.failed++
	if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, objectfs.ErrIdle) {
		m.Errorf("%v", err)
	}
}

// noise is what is written: a part of it from anywhere, which is made faster than random bytes.
var noise = []byte(text(4 << 20))

// writeSome writes mostly where the file ends, sometimes elsewhere.
func (m *model) writeSome(o *opened) {
	for range m.random.Intn(6) {
		offset := len(o.data)
		if m.random.Intn(3) == 0 {
			offset = m.random.Intn(len(o.data) + partSize)
		}
		if offset > 12*partSize || o.failed {
			return
		}
		at := m.random.Intn(len(noise) - partSize)
		data := noise[at : at+1+m.random.Intn(partSize)]
		n, err := o.writer.WriteAt(data, int64(offset))
		if err != nil { // as the session does, it is given up
			m.isUnsupported(err)
			o.failed = true
			return
		}
		o.data = resized(o.data, max(len(o.data), offset+n))
		copy(o.data[offset:], data)
	}
}

func resized(data []byte, size int) []byte {
	if size <= len(data) {
		return data[:size:size]
	}
	return append(data, make([]byte, size-len(data))...)
}

// end closes a file, or cuts its session.
func (m *model) end(name string, closed bool) {
	o := m.open[name]
	delete(m.open, name)
	if !closed || o.failed {
		m.must(o.writer.Abandon())
		return
	}
	err := o.writer.Close()
	if errors.Is(err, objectfs.ErrIdle) {
		return
	}
	m.must(err)
	m.files[name] = o.data
}

func (m *model) rename(from, to string) {
	if m.open[from] != nil || m.open[to] != nil {
		return
	}
	data, exists := m.files[from]
	err := m.fs.PosixRename(context.Background(), from, to)
	if err == nil && !exists {
		m.Errorf("%s was renamed to %s, and is not there", from, to)
	}
	if err == nil && from != to {
		m.files[to] = data
		delete(m.files, from)
	}
	if err != nil && exists && to == strings.TrimSuffix(from, ".filepart") {
		m.Errorf("renaming %s to %s: %v", from, to, err)
	}
}

func (m *model) resize(name string) {
	data, exists := m.files[name]
	size := m.random.Intn(6 * partSize)
	err := m.fs.Setstat(context.Background(), name, sized(int64(size)))
	switch {
	case err == nil && exists:
		m.files[name] = resized(data, size)
	case err == nil:
		m.Errorf("%s was given %d bytes, and is not there", name, size)
	case exists && m.bucket.Objects()[name[1:]] != "":
		m.Errorf("giving %s %d bytes: %v", name, size, err)
	}
}

// check compares everything that is visible.
func (m *model) check() {
	var want []string
	for name, data := range m.files {
		want = append(want, name[1:])
		if m.size(name) != int64(len(data)) {
			m.Errorf("%s has %d bytes, want %d", name, m.size(name), len(data))
		}
		got, err := m.get(name)
		waits := strings.HasSuffix(name, ".filepart") && err != nil
		if !waits && got != string(data) {
			m.Errorf("%s holds %d bytes, %v; want %d", name, len(got), err, len(data))
		}
	}
	sort.Strings(want)
	for _, name := range m.list("/") {
		if _, ok := m.files["/"+name]; !ok && !strings.HasSuffix(name, ".filepart") {
			m.Errorf("%s is listed, want %q", name, want)
		}
	}
	for key, data := range m.bucket.Objects() {
		if wanted, ok := m.files["/"+key]; !ok || string(wanted) != data {
			m.Errorf("the object %s has %d bytes, want %d", key, len(data), len(wanted))
		}
	}
}
