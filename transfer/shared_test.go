package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// near is the link of a host that is not slow. Its window is that of an SSH channel: a copy is
// never further ahead of its host than that.
var near = sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
	RateBytesPerSec: 100 << 20, Window: 2 << 20}

// slowLink has a hundredth of near's rate.
var slowLink = sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
	RateBytesPerSec: 1 << 20, Window: 2 << 20}

// sharedCopies copies one source to a host behind each link at the same time. It records each
// copy's error and duration, and the Shared's peak memory.
type sharedCopies struct {
	hosts  []*bench
	errs   []error
	took   []time.Duration
	memory int64
}

func copyShared(t *testing.T, shared *transfer.Shared, links []sftptest.LinkConfig,
	work func(i int, b *bench) error) *sharedCopies {
	t.Helper()
	s := &sharedCopies{errs: make([]error, len(links)), took: make([]time.Duration, len(links))}
	for _, link := range links {
		s.hosts = append(s.hosts, newBench(t, sftptest.Script{}, link))
	}
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			s.memory = max(s.memory, shared.Held())
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	began := time.Now()
	var copying sync.WaitGroup
	for i, b := range s.hosts {
		copying.Go(func() {
			s.errs[i] = work(i, b)
			s.took[i] = time.Since(began)
		})
	}
	copying.Wait()
	close(over)
	<-watched
	return s
}

// haveTree makes sure that each host has these files in /tree.
func (s *sharedCopies) haveTree(t *testing.T, want map[string][]byte) {
	t.Helper()
	for i, b := range s.hosts {
		if s.errs[i] != nil {
			t.Fatalf("host %d: %v", i, s.errs[i])
		}
		for name, data := range want {
			if !bytes.Equal(b.remote("/tree/"+name), data) {
				t.Errorf("host %d has another %s", i, name)
			}
		}
	}
}

// hasTarget makes sure that a host has the file.
func (s *sharedCopies) hasTarget(t *testing.T, i int, want []byte) {
	t.Helper()
	if s.errs[i] != nil {
		t.Errorf("host %d: %v", i, s.errs[i])
	} else if !bytes.Equal(s.hosts[i].remote("/target"), want) {
		t.Errorf("host %d has another file", i)
	}
}

// TestSharedFile: a file is read once for all hosts that keep up, however many there are. A slow
// one reads it separately, at no cost to the others.
func TestSharedFile(t *testing.T) {
	const memory = 4 << 20
	data := random(20<<20 + 12345)
	for _, test := range []struct {
		name  string
		links []sftptest.LinkConfig
		reads int // of the file
	}{
		{"one host", []sftptest.LinkConfig{near}, 1},
		{"three hosts", []sftptest.LinkConfig{near, near, near}, 1},
		{"sixteen hosts", slowly(near, 16), 1},
		{"a slow one", []sftptest.LinkConfig{near, slowLink, near}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "source")
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				shared := transfer.NewShared(memory)
				defer shared.Close()
				s := copyShared(t, shared, test.links, func(_ int, b *bench) error {
					_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
						shared.Local(name), transfer.Options{})
					return err
				})
				for i := range s.hosts {
					s.hasTarget(t, i, data)
					if test.links[i] == near && s.took[i] > 300*time.Millisecond {
						t.Errorf("host %d took %v", i, s.took[i])
					}
				}
				read, size := shared.BytesRead(), int64(len(data))
				if read < int64(test.reads-1)*size+1 || read > int64(test.reads)*size {
					t.Errorf("%d bytes were read of a file of %d", read, size)
				}
				if most := int64(memory + len(test.links)*(256<<10)); s.memory > most {
					t.Errorf("%d bytes of memory, want at most %d", s.memory, most)
				}
			})
		})
	}
}

func slowly(link sftptest.LinkConfig, n int) (links []sftptest.LinkConfig) {
	for range n {
		links = append(links, link)
	}
	return links
}

// TestSharedTree: the files of a tree are read once, small and large ones, and each host gets them
// all.
func TestSharedTree(t *testing.T) {
	dir := t.TempDir()
	want, size := make(map[string][]byte), int64(0)
	add := func(name string, data []byte) {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, data, 0o644); err != nil {
			t.Fatal(err)
		}
		want[name] = data
		size += int64(len(data))
	}
	for i := range 100 {
		add(fmt.Sprintf("d%d/small%d", i%7, i), random(1000+i))
	}
	add("empty", nil)
	add("large", random(3<<20+17))
	add("d1/block", random(512<<10))
	synctest.Test(t, func(t *testing.T) {
		shared := transfer.NewShared(0)
		defer shared.Close()
		s := copyShared(t, shared, slowly(near, 3), func(_ int, b *bench) error {
			_, err := transfer.CopyTree(t.Context(), transfer.Remote(b.host, "/tree"),
				shared.Local(dir), transfer.TreeOptions{})
			return err
		})
		s.haveTree(t, want)
		if shared.BytesRead() != size {
			t.Errorf("%d bytes were read of %d", shared.BytesRead(), size)
		}
	})
}

// TestSharedFileChanges: what was read before a file changed is not given to a copy that starts
// after the change.
func TestSharedFileChanges(t *testing.T) {
	shared := transfer.NewShared(0)
	defer shared.Close()
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
	for i, data := range [][]byte{random(300_000), random(400_000),
		bytes.Repeat([]byte("x"), 400_000)} {
		source := b.local("source", data)
		when := time.Unix(1_700_000_000+int64(i), 0)
		os.Chtimes(source, when, when)
		_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
			shared.Local(source), transfer.Options{})
		if err != nil || !bytes.Equal(b.remote("/target"), data) {
			t.Errorf("the copy differs, %v", err)
		}
	}
}

// countedStream yields its data once and counts what was read.
type countedStream struct {
	data []byte
	at   int
	err  error // instead of io.EOF
}

func (s *countedStream) Read(p []byte) (int, error) {
	if s.at == len(s.data) {
		if s.err != nil {
			return 0, s.err
		}
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 100_000)], s.data[s.at:])
	s.at += n
	return n, nil
}

// copyStream copies a stream to a host behind each link.
func copyStream(t *testing.T, shared *transfer.Shared, r io.Reader, patience time.Duration,
	links []sftptest.LinkConfig) *sharedCopies {
	branches := shared.Reader(r, len(links), patience)
	return copyShared(t, shared, links, func(i int, b *bench) error {
		defer branches[i].Leave()
		_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
			branches[i].Endpoint, transfer.Options{})
		return err
	})
}

// TestSharedStream: every host gets all of a stream that is read once. The others wait for a slow
// host until their patience is used up, then it is abandoned.
func TestSharedStream(t *testing.T) {
	const memory, patience = 4 << 20, 2 * time.Second
	data := random(20<<20 + 12345)
	for _, test := range []struct {
		name  string
		links []sftptest.LinkConfig
		slow  int // the host that is abandoned, -1 for none
		most  time.Duration
	}{
		{"three hosts", slowly(near, 3), -1, 300 * time.Millisecond},
		{"sixteen hosts", slowly(near, 16), -1, 300 * time.Millisecond},
		{"a slow one", []sftptest.LinkConfig{near, slowLink, near}, 1, patience + time.Second},
		{"a dead one", slowly(near, 3), 0, patience + time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := transfer.NewShared(memory)
				defer shared.Close()
				stream := &countedStream{data: data}
				links := test.links
				branches := shared.Reader(stream, len(links), patience)
				s := copyShared(t, shared, links, func(i int, b *bench) error {
					defer branches[i].Leave()
					if i == 0 && test.name == "a dead one" {
						time.Sleep(time.Minute) // it never gets to read
					}
					_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
						branches[i].Endpoint, transfer.Options{})
					return err
				})
				for i := range s.hosts {
					if i == test.slow {
						if !errors.Is(s.errs[i], transfer.ErrTooSlow) {
							t.Errorf("the slow host: %v", s.errs[i])
						}
						continue
					}
					s.hasTarget(t, i, data)
					if s.took[i] > test.most {
						t.Errorf("host %d took %v", i, s.took[i])
					}
				}
				if test.slow >= 0 && test.links[test.slow] == slowLink &&
					(s.took[test.slow] > test.most+5*time.Second ||
						!strings.Contains(s.errs[test.slow].Error(), "they waited 2s for it")) {
					t.Errorf("after %v: %v", s.took[test.slow], s.errs[test.slow])
				}
				if shared.BytesRead() != int64(len(data)) || stream.at != len(data) {
					t.Errorf("%d bytes were read of %d", shared.BytesRead(), len(data))
				}
				if s.memory > memory {
					t.Errorf("%d bytes of memory", s.memory)
				}
				if held := shared.Held(); held != 0 {
					t.Errorf("%d bytes are held in the end", held)
				}
			})
		})
	}
}

// TestSharedStreamFails: all copies fail with the stream's error, and panic with its panic.
func TestSharedStreamFails(t *testing.T) {
	t.Run("error", func(t *testing.T) {
		shared := transfer.NewShared(0)
		defer shared.Close()
		broken := errors.New("the disk is broken")
		s := copyStream(t, shared, &countedStream{data: random(1 << 20), err: broken}, 0,
			make([]sftptest.LinkConfig, 2))
		for i, err := range s.errs {
			if !errors.Is(err, broken) {
				t.Errorf("host %d: %v", i, err)
			}
			if left := s.hosts[i].server.Files.List(); len(left) > 1 {
				t.Errorf("host %d has %v", i, left)
			}
		}
	})
	t.Run("panic", func(t *testing.T) {
		shared := transfer.NewShared(0)
		defer shared.Close()
		branch := shared.Reader(panicReader{}, 1, 0)[0]
		defer branch.Leave()
		b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		defer func() {
			if value := recover(); value != "no stream" {
				t.Errorf("it panicked with %v", value)
			}
		}()
		_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"), branch.Endpoint,
			transfer.Options{})
		t.Errorf("it did not panic: %v", err)
	})
	t.Run("a read after all have left", func(t *testing.T) {
		shared := transfer.NewShared(0)
		defer shared.Close()
		branch := shared.Reader(strings.NewReader("data"), 1, 0)[0]
		branch.Leave()
		_, err := transfer.Copy(t.Context(), transfer.Writer(io.Discard), branch.Endpoint,
			transfer.Options{})
		if err == nil || !strings.Contains(err.Error(), "after its Leave") {
			t.Error(err)
		}
	})
	t.Run("a host that leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			shared := transfer.NewShared(1 << 20)
			defer shared.Close()
			data := random(5 << 20)
			branches := shared.Reader(bytes.NewReader(data), 2, time.Hour)
			branches[0].Leave()
			defer branches[1].Leave()
			b := newBench(t, sftptest.Script{}, near)
			began := time.Now()
			_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
				branches[1].Endpoint, transfer.Options{})
			if err != nil || !bytes.Equal(b.remote("/target"), data) ||
				time.Since(began) > time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		})
	})
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("no stream") }
