package osfs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/turn"
	"github.com/usftp/usftp/wire"
)

// deep makes nested directories and returns the outermost one, open, and the path of the innermost.
func deep(t *testing.T, levels int) (root *os.File, name string) {
	t.Helper()
	root, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	at := int(root.Fd())
	for range levels {
		if err := unix.Mkdirat(at, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := openAt(at, "d", openDirectory, 0)
		if err != nil {
			t.Fatal(err)
		}
		if at != int(root.Fd()) {
			unix.Close(at)
		}
		at = next
	}
	unix.Close(at)
	return root, "/" + strings.Repeat("d/", levels-1) + "d"
}

// TestStepsOfAPath counts the directories that are opened: as many as the path has elements, not
// their square.
func TestStepsOfAPath(t *testing.T) {
	const levels = 800 // there and back is as long as a path may be
	root, name := deep(t, levels)
	back := strings.Repeat("/..", levels)
	for _, test := range []struct {
		name, path, want string
		steps            int
	}{
		{"down", name, name, levels},
		{"down and a little back", name + strings.Repeat("/..", maxHeld-1), "", levels + maxHeld},
		// Every maxHeld steps up the walk starts again at the top.
		{"down and back", name + back, "/", levels + levels + levels*levels/2/maxHeld + levels},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWalk(t.Context(), int(root.Fd()), test.path)
			defer w.close()
			got, err := w.realPath()
			if err != nil || test.want != "" && got != test.want {
				t.Errorf("resolved to %.40q, %v", got, err)
			}
			if w.steps > test.steps {
				t.Errorf("%d steps, want at most %d", w.steps, test.steps)
			}
			if len(w.held) > maxHeld {
				t.Errorf("%d directories are open", len(w.held))
			}
		})
	}
}

// TestEndlessPath: paths that links multiply come to an end.
func TestEndlessPath(t *testing.T) {
	root, name := deep(t, 1000)
	if err := unix.Symlinkat(name[1:]+strings.Repeat("/..", 600), int(root.Fd()),
		"link"); err != nil {
		t.Fatal(err)
	}
	w := newWalk(t.Context(), int(root.Fd()), strings.Repeat("link"+strings.Repeat("/..", 400)+"/",
		3))
	defer w.close()
	if _, err := w.realPath(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v", err)
	}
	if w.steps > maxSteps+1 {
		t.Errorf("%d steps", w.steps)
	}
}

// TestPathObeysContext: the walk stops when its session has ended.
func TestPathObeysContext(t *testing.T) {
	root, name := deep(t, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWalk(ctx, int(root.Fd()), name)
	defer w.close()
	if _, err := w.realPath(); !errors.Is(err, context.Canceled) || w.steps > 1 {
		t.Errorf("%d steps, %v", w.steps, err)
	}
}

// longLinks makes a directory with links, each of which leads through the next one and to and fro
// besides, so that a short path to another directory takes thousands of steps.
func longLinks(t *testing.T) (files *FS, short, long string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	to := "d"
	for i := range 20 {
		name := fmt.Sprint("l", i)
		if err := os.Symlink(strings.Repeat("d/../", 500)+to,
			filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		to = name
	}
	files, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	return files, "/d", "/" + to
}

// occupy takes all turns but some.
func occupy(t *testing.T, ctx context.Context, left int) (release func()) {
	t.Helper()
	var taken []func()
	for range max(1, runtime.GOMAXPROCS(0)-1) - left {
		end, err := turn.Take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, end)
	}
	return func() {
		for _, end := range taken {
			end()
		}
	}
}

// TestLongLinksTakeTurns: a short path that leads through long links takes its turns among other
// expensive work. One that ends soon waits for nothing.
func TestLongLinksTakeTurns(t *testing.T) {
	files, short, long := longLinks(t)
	t.Run("directory", func(t *testing.T) { testLongLinks(t, files, short, long) })
	tree, err := server.NewFolders(server.Folder{Path: "/", FS: files},
		server.Folder{Path: "/other", Policy: server.Policy{ReadOnly: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("folders", func(t *testing.T) { testLongLinks(t, tree, short, long) })
}

func testLongLinks(t *testing.T, files interface {
	server.FS
	server.Remover
}, short, long string) {
	view, err := server.NewView(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, op := range map[string]func(ctx context.Context, dir string) error{
		"stat": func(ctx context.Context, dir string) error {
			_, err := view.Stat(ctx, dir)
			return err
		},
		"realpath": func(ctx context.Context, dir string) error {
			_, err := view.RealPath(ctx, dir)
			return err
		},
		"mkdir and rmdir": func(ctx context.Context, dir string) error {
			return errors.Join(view.Mkdir(ctx, dir+"/new", wire.Attrs{}),
				view.Rmdir(ctx, dir+"/new"))
		},
		"remove beneath": func(ctx context.Context, dir string) error {
			err := files.Remove(server.WithBeneath(ctx, dir), dir+"/none")
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var work server.Work
				ctx := view.WithWork(t.Context(), &work)
				release := occupy(t, ctx, 0)
				if err := op(ctx, short); err != nil {
					t.Errorf("a short path: %v", err)
				}
				done := make(chan error, 1)
				given, giveUp := context.WithCancel(ctx)
				go func() { done <- op(given, long) }()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatalf("it took no turn: %v", <-done)
				}
				giveUp()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("given up: %v", err)
				}
				go func() { done <- op(ctx, long) }()
				synctest.Wait()
				release()
				if err := <-done; err != nil {
					t.Error(err)
				}
				release = occupy(t, ctx, 0) // all turns have ended
				release()
			})
		})
	}
}

// TestTurnsAndLocks: requests that wait for turns do not wait for each other in a circle, although
// some resolve two paths, and change the tree with a quota's lock held.
func TestTurnsAndLocks(t *testing.T) {
	files, _, long := longLinks(t)
	var work server.Work
	view, err := server.NewView(files, &server.Policy{Quota: server.NewQuota(1<<30, 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	ctx := view.WithWork(t.Context(), &work)
	defer occupy(t, ctx, 1)()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			from, to := fmt.Sprint(long, "/from", i), fmt.Sprint(long, "/to", i)
			err := view.Mkdir(ctx, from, wire.Attrs{})
			if err == nil {
				err = view.Rename(ctx, from, to)
			}
			if err == nil {
				err = files.Rename(server.WithBeneath(ctx, long), to, from)
			}
			if err == nil {
				err = view.Rmdir(ctx, from)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
