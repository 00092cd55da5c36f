// Package history is the log of past copies, syncs and checks, and the verb history, which prints
// it.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/localfs"
)

// An Entry is one run. It has operands but no other flags and no messages, which could contain
// passwords and the credentials of proxies.
type Entry struct {
	Version  int           `json:"v"`
	Time     time.Time     `json:"time"`    // when it began
	Command  string        `json:"command"` // cp, sync or check
	Sources  []string      `json:"sources"` // of a check, the list
	More     int           `json:"more_sources,omitempty"`
	Target   string        `json:"target"`
	Files    int64         `json:"files"` // copied; of a check, matching
	Bytes    int64         `json:"bytes"`
	Failed   int64         `json:"failed,omitempty"`
	Deleted  int64         `json:"deleted,omitempty"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Code     int           `json:"code"` // the exit code
	Manifest string        `json:"manifest,omitempty"`
}

const (
	// version changes if a program that reads entries could break.
	version = 1

	// mostBytes is the size of the log at which its older half is dropped.
	mostBytes = 1 << 20

	// mostSources and mostPath keep an entry short.
	mostSources = 8
	mostPath    = 1024
)

// lockWait is how long other processes may be writing.
var lockWait = 2 * time.Second

// Off reports whether no history is kept.
func Off() bool { return os.Getenv("USFTP_HISTORY") == "no" || file() == "" }

// file returns the log's name, which has a lock beside it.
func file() string { return opt.StatePath("history") }

// within keeps the writers of this process apart, of which --hosts has many. Once one of them has
// waited in vain, the others do not wait.
var within struct {
	sync.Mutex
	vain bool
}

// Write adds an entry to the log.
func (e Entry) Write() error {
	e.Version = version
	if more := len(e.Sources) - mostSources; more > 0 {
		e.Sources, e.More = e.Sources[:mostSources], more
	}
	for _, path := range append([]*string{&e.Target, &e.Manifest}, pointers(e.Sources)...) {
		*path = (*path)[:min(len(*path), mostPath)]
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	within.Lock()
	defer within.Unlock()
	if err := os.MkdirAll(filepath.Dir(file()), 0o700); err != nil {
		return err
	}
	lock, err := localfs.OpenPrivate(file() + ".lock")
	if err != nil {
		return err
	}
	for began := time.Now(); !localfs.TryLock(lock); time.Sleep(5 * time.Millisecond) {
		if within.vain || time.Since(began) > lockWait {
			within.vain = true
			lock.Close()
			return errors.New("others have been writing for too long")
		}
	}
	defer localfs.CloseLocked(lock)
	return add(append(line, '\n'))
}

func pointers(list []string) (p []*string) {
	for i := range list {
		p = append(p, &list[i])
	}
	return p
}

// add adds a line. The caller holds the lock.
func add(line []byte) error {
	f, err := localfs.OpenPrivate(file())
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if size+int64(len(line)) > mostBytes {
		return replace(f, line)
	}
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
	}
	if last[0] != '\n' { // its writer was killed, or the disk was full
		line = append([]byte{'\n'}, line...)
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}

// replace replaces the log by its newer half and a line. Readers see one or the other.
func replace(f *os.File, line []byte) error {
	if _, err := f.Seek(-mostBytes/2, io.SeekEnd); err != nil {
		return err
	}
	kept, err := io.ReadAll(io.LimitReader(f, mostBytes/2))
	if err != nil {
		return err
	}
	f.Close() // on Windows no open file is replaced
	_, kept, _ = bytes.Cut(kept, []byte{'\n'})
	if n := len(kept); n > 0 && kept[n-1] != '\n' {
		kept = append(kept, '\n')
	}
	return localfs.ReplacePrivate(file(), append(kept, line...))
}

// Read returns the entries of the log, the oldest first. It leaves out invalid lines: the last one
// may be cut off.
func Read() (entries []Entry, err error) {
	f, err := os.Open(file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*mostBytes))
	for line := range bytes.Lines(text) {
		var e Entry
		if json.Unmarshal(line, &e) == nil && e.Version > 0 && !e.Time.IsZero() {
			entries = append(entries, e)
		}
	}
	return entries, err
}
