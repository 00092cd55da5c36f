package sync

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// A thousand random changes, during which ten connections are lost, the last one together with the
// last change: 5 s after it both trees are equal. The files, the changes and the system's reports
// of them are real. The link, the logins and the clock are simulated, so that the 5 s are what the
// watcher, the retries and the link take, however busy the machine is.
func TestWatchWhileConnectionsAreLost(t *testing.T) {
	for _, trip := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond} {
		for seed := uint64(1); seed <= uint64(soak.Pick(1, 3)); seed++ {
			t.Run(fmt.Sprintf("%v, seed %d", trip, seed), func(t *testing.T) {
				t.Parallel()
				// The clock of a bubble stands still while a goroutine in it waits for the system.
				system, err := fsnotify.NewBufferedWatcher(queuedEvents)
				if err != nil {
					t.Fatal(err)
				}
				defer system.Close()
				synctest.Test(t, func(t *testing.T) {
					watchWhileConnectionsAreLost(t, trip, seed, system)
				})
			})
		}
	}
}

func watchWhileConnectionsAreLost(t *testing.T, trip time.Duration, seed uint64,
	system *fsnotify.Watcher) {
	const changes, losses = 1000, 10
	g := &garden{t: t, rng: rand.New(rand.NewPCG(seed, 5)), root: t.TempDir()}
	f := newFarTree(t, trip/2)
	w, err := newWatcher(g.root, system, nil) // the pump takes the errors
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan fsnotify.Event, queuedEvents)
	w.events = events // the pump's
	pump := newPump(t, system, events)
	ctx, cancel := context.WithCancel(t.Context())
	done, began := make(chan error, 1), make(chan struct{})
	options := transfer.SyncOptions{Delete: true, MaxDelete: 1 << 30}
	options.Retries = 100
	go func() {
		done <- w.run(ctx, options, func(o transfer.SyncOptions) (transfer.Summary, error) {
			return transfer.Sync(ctx, transfer.Remote(f.host(), "/dst"), transfer.Local(g.root), o)
		}, func(text string) {
			if strings.HasPrefix(text, "watching ") {
				close(began)
			}
		})
	}()
	<-began
	for i := range changes {
		g.change(i)
		pump.all()
		if (i+1)%(changes/losses) == 0 {
			f.cut()
		}
		if i < changes-1 {
			time.Sleep(time.Duration(g.rng.IntN(100)) * time.Millisecond)
		}
	}
	// two syncs may follow, and a lock whose making was cut off is void after a second only
	time.Sleep(7 * time.Second)
	if ours, theirs := g.state(), f.state(); !slices.Equal(ours, theirs) {
		t.Errorf("7 s after the last change SRC is\n%s\nDST is\n%s", strings.Join(ours, "\n"),
			strings.Join(theirs, "\n"))
	}
	if n := f.dialed.Load(); n != losses+1 {
		t.Errorf("only %d connections were made", n)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	f.client.Load().Close()
}

// A pump passes on what the system reports.
type pump struct {
	t      *testing.T
	system *fsnotify.Watcher
	to     chan<- fsnotify.Event
	marks  string // a directory outside the tree
	n      int
}

func newPump(t *testing.T, system *fsnotify.Watcher, to chan<- fsnotify.Event) *pump {
	p := &pump{t: t, system: system, to: to, marks: t.TempDir()}
	if err := system.Add(p.marks); err != nil {
		t.Fatal(err)
	}
	return p
}

// all passes on everything that has happened until now. The system reports in order, so a directory
// that is made now is reported last.
func (p *pump) all() {
	p.n++
	mark := filepath.Join(p.marks, fmt.Sprint(p.n))
	if err := os.Mkdir(mark, 0o755); err != nil {
		p.t.Fatal(err)
	}
	for {
		select {
		case err := <-p.system.Errors:
			p.t.Fatal(err)
		case e := <-p.system.Events:
			if e.Name == mark {
				return
			}
			p.to <- e
		}
	}
}

// A farTree is the target on a host, over one connection after another.
type farTree struct {
	t      *testing.T
	server *sftptest.Scripted
	oneWay time.Duration
	end    atomic.Pointer[sftptest.End]
	client atomic.Pointer[usftp.Client]
	dialed atomic.Int64
}

func newFarTree(t *testing.T, oneWay time.Duration) *farTree {
	f := &farTree{t: t, server: sftptest.NewServer(t, sftptest.Script{}), oneWay: oneWay}
	f.server.Files.Mkdir("/dst")
	if _, err := f.dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// dial makes another connection.
func (f *farTree) dial(context.Context) (pool.Host, error) {
	time.Sleep(10 * f.oneWay) // a login
	f.dialed.Add(1)
	end := f.server.Dial(sftptest.LinkConfig{ToServer: f.oneWay, ToClient: f.oneWay})
	f.end.Store(end)
	client, err := usftp.NewClientPipe(end, end, usftp.WithServerVersion("SSH-2.0-OpenSSH_9.6"))
	if err != nil {
		return pool.Host{}, err
	}
	if old := f.client.Swap(client); old != nil {
		old.Close()
	}
	return f.host(), nil
}

// host returns the host with the present connection.
func (f *farTree) host() pool.Host {
	return pool.Host{Name: "far", Client: f.client.Load(), Redial: f.dial}
}

// cut breaks the connection.
func (f *farTree) cut() { f.end.Load().Cut(nil) }

// state lists the tree with contents and modes.
func (f *farTree) state() (all []string) {
	for _, name := range f.server.Files.List() {
		rel, found := strings.CutPrefix(name, "/dst/")
		if !found || rel == "" {
			continue
		}
		path, _, isLink := strings.Cut(name, " -> ")
		attrs, err := f.server.Files.Lstat(path)
		if err != nil {
			f.t.Fatal(err)
		}
		if !isLink {
			rel += fmt.Sprintf(" %o", attrs.Permissions&0o777)
		}
		if !isLink && !strings.HasSuffix(path, "/") {
			data, err := f.server.Files.ReadFile(path)
			if err != nil {
				f.t.Fatal(err)
			}
			rel += fmt.Sprintf(" %q", data)
		}
		all = append(all, rel)
	}
	slices.Sort(all)
	return all
}

// A garden is a tree that changes at random.
type garden struct {
	t    *testing.T
	rng  *rand.Rand
	root string
}

// state lists the tree as farTree does.
func (g *garden) state() (all []string) {
	filepath.WalkDir(g.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			g.t.Fatal(err)
		}
		rel, _ := filepath.Rel(g.root, name)
		info, err := d.Info()
		if err != nil {
			g.t.Fatal(err)
		}
		switch mode := info.Mode(); {
		case rel == ".":
			return nil
		case mode.IsDir():
			rel += fmt.Sprintf("/ %o", mode.Perm())
		case mode&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			rel += " -> " + to
		default:
			data, err := os.ReadFile(name)
			if err != nil {
				g.t.Fatal(err)
			}
			rel += fmt.Sprintf(" %o %q", mode.Perm(), data)
		}
		all = append(all, rel)
		return nil
	})
	slices.Sort(all)
	return all
}

// all returns the paths of directories, or of everything else.
func (g *garden) all(dirs bool) (names []string) {
	filepath.WalkDir(g.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			g.t.Fatal(err)
		}
		if d.IsDir() == dirs {
			names = append(names, name)
		}
		return nil
	})
	return names
}

func (g *garden) pick(names []string) string { return names[g.rng.IntN(len(names))] }

// write writes a file as a program with the bubble's clock would.
func (g *garden) write(name, text string) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return
	}
	now := time.Now()
	if err := errors.Join(os.WriteFile(name, []byte(text), 0o644),
		os.Chtimes(name, now, now)); err != nil {
		g.t.Fatal(err)
	}
}

// change makes one random change.
func (g *garden) change(i int) {
	text := fmt.Sprintf("%04d", i)
	dirs, files := g.all(true), g.all(false)
	fresh := filepath.Join(g.pick(dirs), "n"+text)
	if len(files) == 0 {
		g.write(fresh, text)
		return
	}
	switch g.rng.IntN(10) {
	case 0:
		os.Mkdir(fresh, 0o755)
	case 1:
		os.Symlink(text, fresh)
	case 2:
		os.Remove(g.pick(files))
	case 3:
		os.Rename(g.pick(files), fresh)
	case 4:
		dir := g.pick(dirs)
		switch below := filepath.Join(g.root, "d"+text); {
		case dir == g.root:
		case g.rng.IntN(3) == 0:
			os.RemoveAll(dir)
		case g.rng.IntN(2) == 0:
			os.Rename(dir, below)
		default: // into one that is new
			os.Mkdir(below, 0o755)
			os.Rename(dir, filepath.Join(below, "moved"))
		}
	case 5:
		if name := g.pick(files); !isLink(name) {
			os.Chmod(name, 0o600+fs.FileMode(g.rng.IntN(0o100)))
		}
	case 6: // of the same size, most likely within the same second
		g.write(g.pick(files), text)
	case 7: // as editors save
		swap := filepath.Join(g.pick(dirs), ".swap")
		g.write(swap, text)
		os.Rename(swap, g.pick(files))
	default:
		g.write(fresh, text)
	}
}

func isLink(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
