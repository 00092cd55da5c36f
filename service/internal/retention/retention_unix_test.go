//go:build unix

package retention

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
)

// tree makes files, whose modification times are old, as clients set them.
func tree(t *testing.T, names ...string) (root string, files server.FS) {
	t.Helper()
	root = t.TempDir()
	for _, name := range names {
		name = filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(name), 0o644))
		must(t, os.Chtimes(name, time.Unix(0, 0), time.Unix(1e9, 0)))
	}
	files, err := osfs.New(root)
	must(t, err)
	return root, files
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// left lists the files that there are.
func left(t *testing.T, root string) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(name, root))
		}
		return err
	}))
	return names
}

func want(t *testing.T, root string, names ...string) {
	t.Helper()
	if got := left(t, root); !slices.Equal(got, names) {
		t.Errorf("there are %q, want %q", got, names)
	}
}

// apply applies a rule as if it were so much later, and returns what has changed.
func apply(t *testing.T, r *Rule, files server.FS, later time.Duration,
	event func(server.Event)) (changed map[string]string) {
	t.Helper()
	changed = map[string]string{}
	reports := &server.Reporter{Protocol: Protocol,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Events: func(e server.Event) {
			if e.Kind != server.TreeChanged || e.Protocol != Protocol {
				t.Errorf("an event: %+v", e)
			}
			if e.Request != "mkdir" {
				changed[e.Path] = e.To
			}
			if event != nil {
				event(e)
			}
		}}
	must(t, r.Apply(t.Context(), time.Now().Add(later), files, nil, reports))
	return changed
}

const day = 24 * time.Hour

// TestRemoved: files that came long ago are removed, in a folder and below it, and each is
// reported. What a client has just sent with an old time stays, and so do folders and links.
func TestRemoved(t *testing.T) {
	root, files := tree(t, "out/a", "out/b/c", "outer", "keep/a")
	must(t, os.Symlink("../keep", filepath.Join(root, "out/link")))
	r := &Rule{Path: "/out", Age: 30 * day}
	if changed := apply(t, r, files, 29*day, nil); len(changed) > 0 {
		t.Errorf("too early: %q", changed)
	}
	want(t, root, "/keep/a", "/out/a", "/out/b/c", "/out/link", "/outer")
	changed := apply(t, r, files, 31*day, nil)
	if got := slices.Sorted(maps.Keys(changed)); !slices.Equal(got,
		[]string{"/out/a", "/out/b/c"}) {
		t.Errorf("changed %q", got)
	}
	want(t, root, "/keep/a", "/out/link", "/outer")
	if _, err := os.Stat(filepath.Join(root, "out/b")); err != nil {
		t.Errorf("the folder: %v", err)
	}
	if changed := apply(t, &Rule{Path: "/none", Age: day}, files, 31*day, nil); len(changed) > 0 {
		t.Errorf("of a folder that is not there: %q", changed)
	}
	if changed := apply(t, &Rule{Path: "/", Age: day}, files, 31*day, nil); len(changed) != 2 {
		t.Errorf("of the root: %q", changed)
	}
}

// TestSwappedFolder: who puts a link in place of a folder meanwhile, which need not be allowed to
// remove anything, has nothing removed elsewhere.
func TestSwappedFolder(t *testing.T) {
	root, files := tree(t, "out/d/1", "out/d/2", "keep/1", "keep/2")
	done := false
	apply(t, &Rule{Path: "/out", Age: day}, files, 31*day, func(server.Event) {
		if !done {
			done = true
			must(t, os.Rename(filepath.Join(root, "out/d"), filepath.Join(root, "away")))
			must(t, os.Symlink("../keep", filepath.Join(root, "out/d")))
		}
	})
	if got := left(t, root); len(got) != 4 || !slices.Contains(got, "/keep/1") ||
		!slices.Contains(got, "/keep/2") {
		t.Errorf("there are %q", got)
	}
}

// TestMovedAgain: a file that comes again and again, always with the same time, is moved each time.
func TestMovedAgain(t *testing.T) {
	root, files := tree(t)
	old := time.Unix(1e9, 0).UTC()
	for range 4 {
		must(t, os.MkdirAll(filepath.Join(root, "in"), 0o755))
		name := filepath.Join(root, "in/a")
		must(t, os.WriteFile(name, []byte("a"), 0o644))
		must(t, os.Chtimes(name, old, old))
		apply(t, &Rule{Path: "/in", MoveTo: "/old", Age: day}, files, 31*day, nil)
	}
	at := old.Format(".20060102T150405Z")
	want(t, root, "/old/a", "/old/a"+at, "/old/a"+at+"-2", "/old/a"+at+"-3")
}

// TestReplacedFile: a new file that has got the name meanwhile stays.
func TestReplacedFile(t *testing.T) {
	root, files := tree(t, "out/1", "out/2")
	apply(t, &Rule{Path: "/out", Age: day}, files, 31*day, func(e server.Event) {
		for _, name := range []string{"/out/1", "/out/2"} {
			if name != e.Path {
				future := time.Now().Add(31 * day)
				must(t, os.WriteFile(filepath.Join(root, name), []byte("new"), 0o644))
				must(t, os.Chtimes(filepath.Join(root, name), future, future))
			}
		}
	})
	if got := left(t, root); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
}

// TestReplacedWhileHooksAreTold: a new file that gets the name between the last look and the change
// stays, and hooks hear that nothing has come of it.
func TestReplacedWhileHooksAreTold(t *testing.T) {
	for _, to := range []string{"", "/old"} {
		root, files := tree(t, "out/f")
		must(t, os.Mkdir(filepath.Join(root, "old"), 0o755))
		asked := 0
		reports := &server.Reporter{Logger: slog.New(slog.DiscardHandler),
			Events: func(e server.Event) { t.Errorf("an event: %+v", e) },
			Gate: func(server.Event) (func(error), error) {
				asked++
				future := time.Now().Add(31 * day)
				name := filepath.Join(root, "out/f")
				must(t, os.WriteFile(name, []byte("new"), 0o644))
				must(t, os.Chtimes(name, future, future))
				return func(err error) {
					if err == nil || errors.Is(err, server.ErrUnsure) {
						t.Errorf("hooks hear %v", err)
					}
				}, nil
			}}
		r := &Rule{Path: "/out", Age: day, MoveTo: to}
		must(t, r.Apply(t.Context(), time.Now().Add(31*day), files, nil, reports))
		want(t, root, "/out/f")
		if asked != 1 {
			t.Errorf("hooks were told %d times", asked)
		}
	}
}

// TestMoved: files are moved into another folder, which is made, and nothing there is replaced, nor
// moved again if that folder is in the first.
func TestMoved(t *testing.T) {
	root, files := tree(t, "out/a", "out/b/c", "out/old/a")
	r := &Rule{Path: "/out", Age: day, MoveTo: "/out/old"}
	changed := apply(t, r, files, 31*day, nil)
	want(t, root, "/out/old/a", "/out/old/a.20010909T014640Z", "/out/old/b/c")
	if len(changed) != 2 || changed["/out/b/c"] != "/out/old/b/c" {
		t.Errorf("changed %q", changed)
	}
	if changed := apply(t, r, files, 31*day, nil); len(changed) > 0 {
		t.Errorf("again %q", changed)
	}
}

// TestGateRefuses: a file that hooks could not be told of stays, and the others are looked at.
func TestGateRefuses(t *testing.T) {
	root, files := tree(t, "out/a", "out/b")
	asked := 0
	reports := &server.Reporter{Logger: slog.New(slog.DiscardHandler),
		Gate: func(server.Event) (func(error), error) {
			asked++
			return nil, errors.New("no")
		}}
	r := &Rule{Path: "/out", Age: day}
	must(t, r.Apply(t.Context(), time.Now().Add(31*day), files, nil, reports))
	want(t, root, "/out/a", "/out/b")
	if asked != 2 {
		t.Errorf("%d were tried", asked)
	}
}

// shortTime is a backend for which the time of an application ends after so many listings.
type shortTime struct {
	*osfs.FS
	left int
	end  context.CancelFunc
}

func (s *shortTime) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	if s.left--; s.left == 0 {
		s.end()
	}
	return s.FS.List(ctx, name)
}

// TestShortTime: of more folders than there is time for, all have their turn in the end.
func TestShortTime(t *testing.T) {
	root, files := tree(t, "out/29/a")
	for i := range 29 {
		must(t, os.Mkdir(filepath.Join(root, "out", fmt.Sprintf("%02d", i)), 0o755))
	}
	for range 1000 {
		ctx, end := context.WithCancel(t.Context())
		short := &shortTime{files.(*osfs.FS), 10, end}
		r := &Rule{Path: "/out", Age: day}
		err := r.Apply(ctx, time.Now().Add(31*day), short, nil,
			&server.Reporter{Logger: slog.New(slog.DiscardHandler)})
		if end(); err == nil {
			t.Fatal("there is time enough")
		}
		if len(left(t, root)) == 0 {
			return
		}
	}
	t.Error("a folder never has its turn")
}

// TestManyStay: files that cannot be removed, however many, keep no others in the folder, nor those
// in folders below it.
func TestManyStay(t *testing.T) {
	var names, stay []string
	for i := range atOnce + 1 {
		names = append(names, fmt.Sprintf("out/%d", i), fmt.Sprintf("out/stay%04d", i))
		stay = append(stay, fmt.Sprintf("/out/stay%04d", i))
	}
	root, files := tree(t, append(names, "out/below/a")...)
	var log strings.Builder
	reports := &server.Reporter{Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Gate: func(e server.Event) (func(error), error) {
			if strings.HasPrefix(e.Path, "/out/stay") {
				return nil, errors.New("no")
			}
			return func(error) {}, nil
		}}
	r := &Rule{Path: "/out", Age: day}
	must(t, r.Apply(t.Context(), time.Now().Add(31*day), files, nil, reports))
	want(t, root, stay...)
	if !strings.Contains(log.String(), `msg="more old files stay" path=/out count=1`) {
		t.Errorf("the log says %.1000s", log.String())
	}
}
