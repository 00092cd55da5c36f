package cli

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
)

// twins are two directories, a local one and a mounted one, in which the same random calls are
// made. Each call must return the same in both.
type twins struct {
	*testing.T
	random *rand.Rand
	sides  [2]twin
	log    []string
	link   *cutproxy.Proxy // is cut now and then; or nil
}

// A twin is one of two directories, and the files that are open in it.
type twin struct {
	root string
	open [6]int // -1: none
}

func newTwins(t *testing.T, seed uint64, local, mounted string) *twins {
	w := &twins{T: t, random: rand.New(rand.NewPCG(seed, 0))}
	for i, root := range []string{local, mounted} {
		w.sides[i].root = root
		for slot := range w.sides[i].open {
			w.sides[i].open[slot] = -1
		}
	}
	return w
}

// both makes a call in both directories, and fails the test unless the results are the same. It
// reports whether the mount said, after a cut, that what the call made existed.
func (w *twins) both(what string, call func(s *twin) (string, error)) (existed bool) {
	w.Helper()
	local, err := call(&w.sides[0])
	var cutting sync.WaitGroup
	if w.link != nil && w.random.IntN(30) == 0 {
		cutting.Go(w.link.Cut) // before the call, during it or after it
	}
	got, gotErr := call(&w.sides[1])
	cutting.Wait()
	if err != nil {
		local, got = "", ""
	}
	w.log = append(w.log, fmt.Sprintf("%s: %.60q %v", what, local, err))
	switch {
	case local == got && errnoOf(err) == errnoOf(gotErr):
	case w.link != nil && err == nil && errnoOf(gotErr) == syscall.EEXIST:
		w.sameOpen() // docs/mount.md: what is made again exists
		return true
	default:
		w.Errorf("after\n\t%s\nthe mount has %.200q, %v, and not %.200q",
			strings.Join(w.log[max(0, len(w.log)-60):], "\n\t"), got, gotErr, local)
	}
	return false
}

// sameOpen closes the local files that are not open on the mount.
func (w *twins) sameOpen() {
	for slot, fd := range w.sides[0].open {
		if fd >= 0 && w.sides[1].open[slot] < 0 {
			unix.Close(fd)
			w.sides[0].open[slot] = -1
		}
	}
}

// errnoOf returns 0 for nil.
func errnoOf(err error) (errno syscall.Errno) {
	if err != nil && !errors.As(err, &errno) {
		return syscall.EUCLEAN // no call here returns it
	}
	return errno
}

// describe says what is below a directory.
func describe(root string) (string, error) {
	var text strings.Builder
	err := filepath.WalkDir(root, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		about, err := status(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s %s", strings.TrimPrefix(name, root), about)
		if data, err := os.ReadFile(name); err == nil {
			fmt.Fprintf(&text, " %08x", crc32.ChecksumIEEE(data))
		}
		if to, err := os.Readlink(name); err == nil {
			fmt.Fprint(&text, " to "+to)
		}
		text.WriteByte('\n')
		return nil
	})
	return text.String(), err
}

func status(name string) (string, error) {
	var stat unix.Stat_t
	err := unix.Lstat(name, &stat)
	return aboutStat(&stat), err
}

// aboutStat describes those attributes of a file that are the same on all file systems.
func aboutStat(s *unix.Stat_t) string {
	if s.Mode&unix.S_IFMT == unix.S_IFREG {
		return fmt.Sprintf("%o, %d links, %d bytes", s.Mode, s.Nlink, s.Size)
	}
	return fmt.Sprintf("%o", s.Mode)
}

// name returns a path of few possible ones, so that calls often meet.
func (w *twins) name() string {
	name := string(rune('a' + w.random.IntN(4)))
	for w.random.IntN(5) < 2 && len(name) < 6 {
		name += "/" + string(rune('a'+w.random.IntN(4)))
	}
	return name
}

func (w *twins) slot() int { return w.random.IntN(len(w.sides[0].open)) }

func (w *twins) mode() uint32 { return []uint32{0o644, 0o600, 0o755, 0o444}[w.random.IntN(4)] }

// offset is small, or around a size at which the mount does something else.
func (w *twins) offset() int64 {
	return []int64{0, 0, 1, 4096, 63 * 4096, 300_000}[w.random.IntN(6)] + w.random.Int64N(5000)
}

func (w *twins) data() []byte {
	data := make([]byte, w.random.IntN([]int{10, 5000, 400_000}[w.random.IntN(3)]))
	for i := range data {
		data[i] = byte(w.random.Uint32())
	}
	return data
}

// openFlags are those with which files are opened at random.
var openFlags = []int{unix.O_CREAT, unix.O_CREAT, unix.O_EXCL, unix.O_TRUNC, unix.O_APPEND,
	unix.O_DIRECTORY, unix.O_NOFOLLOW}

func (w *twins) openOne() {
	slot, name, mode := w.slot(), w.name(), w.mode()
	flags := []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR}[w.random.IntN(4)]
	for _, flag := range openFlags {
		if w.random.IntN(4) == 0 {
			flags |= flag
		}
	}
	if flags&unix.O_EXCL != 0 && flags&unix.O_CREAT == 0 {
		flags &^= unix.O_EXCL
	}
	w.close(slot)
	w.both(fmt.Sprintf("%d = open %s %#x %o", slot, name, flags, mode),
		func(s *twin) (string, error) {
			fd, err := unix.Open(filepath.Join(s.root, name), flags|unix.O_CLOEXEC, mode)
			if err == nil {
				s.open[slot] = fd
			}
			return "", err
		})
}

func (w *twins) close(slot int) {
	w.both(fmt.Sprintf("close %d", slot), func(s *twin) (string, error) {
		fd := s.open[slot]
		if s.open[slot] = -1; fd < 0 {
			return "", nil
		}
		return "", unix.Close(fd)
	})
}

// byName are calls on one path.
var byName = map[string]func(w *twins) func(path string) (string, error){
	"mkdir": func(*twins) func(string) (string, error) {
		return func(path string) (string, error) { return "", unix.Mkdir(path, 0o755) }
	},
	"rmdir": func(w *twins) func(string) (string, error) {
		return func(path string) (string, error) { return "", unix.Rmdir(path) }
	},
	"unlink": func(w *twins) func(string) (string, error) {
		return func(path string) (string, error) { return "", unix.Unlink(path) }
	},
	"lstat": func(w *twins) func(string) (string, error) { return status },
	"readlink": func(w *twins) func(string) (string, error) {
		return os.Readlink
	},
	"chmod": func(w *twins) func(string) (string, error) {
		mode := w.mode() | 0o100
		return func(path string) (string, error) { return "", unix.Chmod(path, mode) }
	},
	"symlink": func(w *twins) func(string) (string, error) {
		to := w.name()[:1]
		return func(path string) (string, error) { return "", unix.Symlink(to, path) }
	},
	"truncate": func(w *twins) func(string) (string, error) {
		size := w.offset()
		return func(path string) (string, error) { return "", unix.Truncate(path, size) }
	},
	"utimes": func(w *twins) func(string) (string, error) {
		times := []unix.Timeval{{Sec: 1e9}, {Sec: 1e9 + w.random.Int64N(1000)}}
		return func(path string) (string, error) {
			if err := unix.Utimes(path, times); err != nil {
				return "", err
			}
			var stat unix.Stat_t
			err := unix.Stat(path, &stat)
			return fmt.Sprint(stat.Mtim.Sec), err
		}
	},
	"list": func(w *twins) func(string) (string, error) {
		return func(path string) (string, error) {
			entries, err := os.ReadDir(path)
			return fmt.Sprint(entries), err // names and types
		}
	},
	"read": func(w *twins) func(string) (string, error) {
		return func(path string) (string, error) {
			data, err := os.ReadFile(path)
			return string(data), err
		}
	},
	"mknod": func(w *twins) func(string) (string, error) {
		return func(path string) (string, error) {
			return "", unix.Mknod(path, unix.S_IFREG|0o640, 0)
		}
	},
}

// byNames are calls on two paths.
var byNames = map[string]func(a, b string) error{
	"rename": unix.Rename,
	"link":   unix.Link,
	"rename new": func(a, b string) error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_NOREPLACE)
	},
}

// byFile are calls on an open file.
var byFile = map[string]func(w *twins) func(fd int) (string, error){
	"write": func(w *twins) func(int) (string, error) {
		data := w.data()
		return func(fd int) (string, error) {
			n, err := unix.Write(fd, data)
			return fmt.Sprint(n), err
		}
	},
	"pwrite": func(w *twins) func(int) (string, error) {
		data, at := w.data(), w.offset()
		return func(fd int) (string, error) {
			n, err := unix.Pwrite(fd, data, at)
			return fmt.Sprint(n), err
		}
	},
	"read": func(w *twins) func(int) (string, error) {
		size := w.offset()
		return func(fd int) (string, error) {
			data := make([]byte, size)
			n, err := unix.Read(fd, data)
			return string(data[:max(n, 0)]), err
		}
	},
	"pread": func(w *twins) func(int) (string, error) {
		size, at := w.offset(), w.offset()
		return func(fd int) (string, error) {
			data := make([]byte, size)
			n, err := unix.Pread(fd, data, at)
			return string(data[:max(n, 0)]), err
		}
	},
	"seek to the end": func(w *twins) func(int) (string, error) {
		return func(fd int) (string, error) {
			var stat unix.Stat_t
			if unix.Fstat(fd, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
				return "", nil
			}
			at, err := unix.Seek(fd, 0, unix.SEEK_END)
			return fmt.Sprint(at), err
		}
	},
	"ftruncate": func(w *twins) func(int) (string, error) {
		size := w.offset()
		return func(fd int) (string, error) { return "", unix.Ftruncate(fd, size) }
	},
	"fstat": func(w *twins) func(int) (string, error) {
		return func(fd int) (string, error) {
			var stat unix.Stat_t
			err := unix.Fstat(fd, &stat)
			return aboutStat(&stat), err
		}
	},
	"fchmod": func(w *twins) func(int) (string, error) {
		mode := w.mode() | 0o100
		return func(fd int) (string, error) { return "", unix.Fchmod(fd, mode) }
	},
	"fsync": func(w *twins) func(int) (string, error) {
		return func(fd int) (string, error) { return "", unix.Fsync(fd) }
	},
	"mmap": func(w *twins) func(int) (string, error) {
		b := byte(w.random.Uint32())
		return func(fd int) (text string, err error) {
			var stat unix.Stat_t
			unix.Fstat(fd, &stat)
			if stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size == 0 {
				return "", nil
			}
			m, err := unix.Mmap(fd, 0, int(stat.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				return "", err
			}
			defer unix.Munmap(m)
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if recover() != nil {
					text, err = "", syscall.EFAULT // SIGBUS
				}
			}()
			m[len(m)/2] = b
			return string(bytes.Clone(m)), nil
		}
	},
}

// step makes one random call.
func (w *twins) step() {
	switch w.random.IntN(8) {
	case 0, 1:
		w.openOne()
	case 2:
		w.close(w.slot())
	case 3:
		what := w.oneOf(keys(byNames))
		a, b := w.name(), w.name()
		existed := w.both(fmt.Sprintf("%s %s %s", what, a, b), func(s *twin) (string, error) {
			return "", byNames[what](filepath.Join(s.root, a), filepath.Join(s.root, b))
		})
		if existed && what == "link" { // the mount does not know that both names are one file
			for _, s := range w.sides {
				must(w.T, unix.Unlink(filepath.Join(s.root, b)))
			}
		}
	case 4, 5:
		what := w.oneOf(keys(byName))
		name := w.name()
		call := byName[what](w)
		w.both(fmt.Sprintf("%s %s", what, name), func(s *twin) (string, error) {
			return call(filepath.Join(s.root, name))
		})
	default:
		what := w.oneOf(keys(byFile))
		slot, call := w.slot(), byFile[what](w)
		if w.sides[0].open[slot] < 0 || what == "mmap" && w.link != nil { // there an error is SIGBUS
			return
		}
		w.both(fmt.Sprintf("%s %d", what, slot), func(s *twin) (string, error) {
			return call(s.open[slot])
		})
	}
}

func (w *twins) oneOf(names []string) string { return names[w.random.IntN(len(names))] }

func keys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A mount answers random calls as a local file system does, also while its link is cut.
func TestMountTwins(t *testing.T) {
	t.Parallel()
	m := mountFar(t)
	cut, link := mountOverProxy(t)
	for seed := range uint64(soak.Pick(2, 8)) {
		twinsIn(t, m, seed, nil)
		twinsIn(t, cut, seed, link)
	}
}

func twinsIn(t *testing.T, m *mounted, seed uint64, link *cutproxy.Proxy) {
	t.Helper()
	name := fmt.Sprint(seed)
	w := newTwins(t, seed, t.TempDir(), m.path(name))
	must(t, os.Mkdir(m.path(name), 0o755))
	w.link = link
	for range 600 {
		if w.step(); t.Failed() {
			t.Fatalf("seed %d, cut: %v", seed, link != nil)
		}
	}
	for slot := range w.sides[0].open {
		w.close(slot)
	}
	w.both("the tree", func(s *twin) (string, error) { return describe(s.root) })
	testenv.Until(t, "the same tree on the host", func() bool { // without removed files
		local, _ := describe(w.sides[0].root)
		far, _ := describe(filepath.Join(m.far, name))
		return local == far
	})
}
