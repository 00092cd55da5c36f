package sync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/transfer"
)

// If there are more changes than the system can queue, everything is compared, so that nothing is
// missed, and directories made in the meantime are watched from then on.
func TestWatchOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	late := filepath.Join(root, "late", "deep")
	if err := os.MkdirAll(filepath.Join(root, "old", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(root, "new", "deep")
	round, overflowed := 0, 0
	seen := map[string]bool{}
	wasAll := func(o transfer.SyncOptions) bool { return o.Within == nil }
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		switch round++; {
		case round == 1: // no events are taken during a round
			for i := range most + 3*4096 { // the watcher's own queue
				os.Chmod(filepath.Join(root, []string{"a", "b"}[i%2]), 0o600+os.FileMode(i/2%2))
			}
			if err := errors.Join(os.MkdirAll(late, 0o755),
				os.Rename(filepath.Join(root, "old"), filepath.Join(root, "new"))); err != nil {
				t.Error(err)
			}
		case overflowed == 0 && wasAll(o):
			overflowed = round
			os.WriteFile(filepath.Join(late, "file"), nil, 0o600)
			os.WriteFile(filepath.Join(moved, "file"), nil, 0o600)
		case overflowed > 0 && !wasAll(o):
			for _, dir := range []string{"late/deep", "new/deep"} {
				seen[dir] = seen[dir] || o.Within.Dirs[dir]
			}
			if seen["late/deep"] && seen["new/deep"] {
				cancel()
			}
		}
		return s, nil
	}
	err = watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {})
	if !errors.Is(err, context.Canceled) || overflowed == 0 {
		t.Errorf("%d rounds, everything was compared in round %d, then changes were seen in %v: %v",
			round,
			overflowed, seen, err)
	}
}

// A directory that is moved into a new one, before the new one is watched, is watched where it is
// now, and so is everything in it.
func TestWatchMoveIntoNew(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "old", "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	round := 0
	var seen []string
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		switch round++; round {
		case 1: // no events are taken during a round
			if err := errors.Join(os.Mkdir(filepath.Join(root, "new"), 0o755),
				os.Rename(filepath.Join(root, "old"),
					filepath.Join(root, "new", "old"))); err != nil {
				t.Error(err)
			}
		case 2:
			os.WriteFile(filepath.Join(root, "new", "old", "a", "b", "file"), nil, 0o600)
		default:
			seen = slices.Sorted(maps.Keys(o.Within.Dirs))
			cancel()
		}
		return s, nil
	}
	err := watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {})
	if !errors.Is(err, context.Canceled) || !slices.Contains(seen, "new/old/a/b") {
		t.Errorf("%d rounds, then changes were seen in %q: %v", round, seen, err)
	}
}

// A directory is moved into a new one before that is watched, and found there before its move is
// reported: it is watched under its new name all the same.
func TestWatchFoundBeforeMoveIsReported(t *testing.T) {
	root := t.TempDir()
	old, made := filepath.Join(root, "old"), filepath.Join(root, "new")
	moved := filepath.Join(made, "old")
	if err := os.Mkdir(old, 0o755); err != nil {
		t.Fatal(err)
	}
	system, err := fsnotify.NewWatcher() // which learns nothing more until an event is received
	if err != nil {
		t.Fatal(err)
	}
	defer system.Close()
	w, err := newWatcher(root, system, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.all = false
	if err := errors.Join(os.Mkdir(made, 0o755), os.Rename(old, moved)); err != nil {
		t.Fatal(err)
	}
	var events []fsnotify.Event // new is made, old is renamed, which its parent and itself report
	for range 3 {
		e := <-system.Events
		if events = append(events, e); len(events) == 1 {
			if err := w.take(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, e := range events[1:] {
		if err := w.take(e); err != nil {
			t.Fatal(err)
		}
	}
	within, err := w.wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(system.WatchList(), moved) || !slices.Contains(within.Trees, "new/old") {
		t.Errorf("after %v only %q are watched, and %+v is to be synced", events, system.WatchList(),
			within)
	}
}

// A directory that may not be read, which may be excluded, does not end the watch of the others,
// and is watched once it may be read.
func TestWatchUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		runAsNobody(t) // root may read everything
		return
	}
	root := t.TempDir()
	early, late := filepath.Join(root, "early"), filepath.Join(root, "late")
	if err := os.Mkdir(early, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	round := 0
	var trees, seen []string
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		switch round++; round {
		case 1:
			err = os.Mkdir(late, 0)
		case 2:
			err = errors.Join(os.Chmod(early, 0o700), os.Chmod(late, 0o700))
		case 3:
			trees = slices.Sorted(slices.Values(o.Within.Trees))
			err = errors.Join(os.WriteFile(filepath.Join(early, "file"), nil, 0o600),
				os.WriteFile(filepath.Join(late, "file"), nil, 0o600))
		default:
			seen = slices.Sorted(maps.Keys(o.Within.Dirs))
			cancel()
		}
		if err != nil {
			t.Error(err)
		}
		return s, nil
	}
	err := watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {})
	if want := []string{"early", "late"}; !errors.Is(err, context.Canceled) ||
		!slices.Equal(trees, want) || !slices.Equal(seen, want) {
		t.Errorf("%d rounds, %q were compared when they could be read, then changes were seen in %q: %v",
			round, trees, seen, err)
	}
}

// runAsNobody runs the test again, as a user to whom modes apply.
func runAsNobody(t *testing.T) {
	t.Helper()
	test := exec.Command("/proc/self/exe", "-test.v", "-test.run=^"+t.Name()+"$")
	test.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	test.Env = append(os.Environ(), "TMPDIR=/tmp")
	out, err := test.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// After a lost connection the next round covers what the one that failed did, and what has changed
// since, but not everything.
func TestWatchAfterLostConnection(t *testing.T) {
	root := t.TempDir()
	change := func(name string) {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	change("changed")
	change("later")
	round := 0
	var failed, again *transfer.SyncWithin
	var since time.Time // start of the last round that succeeded
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		switch round++; round {
		case 1:
			since = time.Now()
			change("changed/tree")
		case 2:
			failed = o.Within
			change("later/tree")
			return s, &transfer.TreeError{Failed: 1, First: net.ErrClosed}
		default:
			again = o.Within
			if o.Since.After(since) {
				t.Errorf("files are copied that changed since %v, but those since %v have failed",
					o.Since, since)
			}
			cancel()
		}
		return s, nil
	}
	err := watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {})
	if !errors.Is(err, context.Canceled) || failed == nil || !failed.Dirs["changed"] {
		t.Fatalf("after %d rounds: %+v, %v", round, failed, err)
	}
	if again == nil || !again.Dirs["changed"] || !again.Dirs["later"] ||
		!slices.Contains(again.Trees, "changed/tree") || again.Dirs["."] {
		t.Errorf("%+v was to be compared again, and what has changed, but was %+v", failed, again)
	}
}

// A source that is unmounted, or replaced in a way that no event tells, ends the watch instead of
// leaving nothing watched.
func TestWatchWhoseSourceGoesAway(t *testing.T) {
	if os.Getuid() != 0 {
		testenv.Unavailable(t, "only root can mount")
	}
	was := rootChecked
	rootChecked = 10 * time.Millisecond
	defer func() { rootChecked = was }()
	full, root := t.TempDir(), t.TempDir()
	if err := syscall.Mount(full, root, "", syscall.MS_BIND, ""); err != nil {
		testenv.Unavailable(t, fmt.Errorf("a bind mount: %w", err))
	}
	unmount := sync.OnceValue(func() error { return syscall.Unmount(root, 2) }) // MNT_DETACH
	defer unmount()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := watch(ctx, root, transfer.SyncOptions{},
		func(transfer.SyncOptions) (s transfer.Summary, err error) { return s, nil },
		func(string) {
			if err := unmount(); err != nil {
				t.Error(err)
			}
		})
	if err == nil || !strings.Contains(err.Error(), "is another directory now: nothing is watched") {
		t.Errorf("it ended with %v", err)
	}
}

// A source that is a link to a directory is noticed to lead to another one, which is not copied with
// the changes of the first.
func TestWatchedLinkLeadsElsewhere(t *testing.T) {
	was := rootChecked
	rootChecked = 10 * time.Millisecond
	defer func() { rootChecked = was }()
	first, second := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rounds := 0
	err := errors.Join(os.Symlink(first, link),
		watch(ctx, link, transfer.SyncOptions{},
			func(transfer.SyncOptions) (s transfer.Summary, err error) {
				rounds++
				return s, errors.Join(os.Symlink(second, link+"2"), os.Rename(link+"2", link))
			}, func(string) {}))
	if err == nil || rounds != 1 ||
		!strings.Contains(err.Error(), link+" is another directory now: nothing is watched any more") {
		t.Errorf("after %d rounds: %v", rounds, err)
	}
}

// Directories that are moved elsewhere and deleted there at once do not end the reports of changes.
func TestWatchMovedAwayAndDeleted(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	for i := range 100 {
		if err := os.Mkdir(filepath.Join(root, fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	round := 0
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		round++
		if round == 2 {
			cancel()
			return s, nil
		}
		for i := range 100 {
			away := filepath.Join(elsewhere, fmt.Sprint(i))
			if err := errors.Join(os.Rename(filepath.Join(root, fmt.Sprint(i)), away),
				os.Remove(away)); err != nil {
				t.Error(err)
			}
		}
		return s, nil
	}
	done := make(chan error, 1)
	go func() { done <- watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {}) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("after %d rounds it ended with %v", round, err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it hangs")
	}
}

// Only what the system reports as a rename is one. A directory that is moved elsewhere and another
// that is made right after it have nothing in common.
func TestWatchRenames(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	for _, name := range []string{"gone", "first", `odd " ← "name`} {
		if err := os.Mkdir(in(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	round := 0
	var seen []transfer.SyncRename
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		switch round++; round {
		case 1:
			if err := errors.Join(os.Rename(in("gone"), filepath.Join(elsewhere, "gone")),
				os.Mkdir(in("made"), 0o755), os.Rename(in("first"), in("second \xff\n")),
				os.Rename(in(`odd " ← "name`), in(`another " ← "`))); err != nil {
				t.Error(err)
			}
		default:
			seen = o.Within.Renames
			cancel()
		}
		return s, nil
	}
	err := watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {})
	want := []transfer.SyncRename{{From: "first", To: "second \xff\n"},
		{From: `odd " ← "name`, To: `another " ← "`}}
	if !errors.Is(err, context.Canceled) || !slices.Equal(seen, want) {
		t.Errorf("the renames are %q, want %q: %v", seen, want, err)
	}
}

// Whatever the first round misses, it is said once that changes are seen from now on.
func TestWatchSaysSo(t *testing.T) {
	for _, first := range []error{nil, &transfer.TreeError{Failed: 1, First: transfer.ErrVanished},
		&transfer.TreeError{Failed: 1, First: os.ErrPermission}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		round, said := 0, 0
		root := t.TempDir()
		err := watch(ctx, root, transfer.SyncOptions{},
			func(transfer.SyncOptions) (s transfer.Summary, err error) {
				if round++; round == 1 {
					err = first
				}
				if round == 3 {
					cancel()
				} else if err := os.Mkdir(filepath.Join(root, strconv.Itoa(round)), 0o700); err != nil {
					t.Error(err)
				}
				return s, err
			}, func(text string) {
				if strings.HasPrefix(text, "watching ") {
					said++
				}
			})
		cancel()
		if !errors.Is(err, context.Canceled) || said != 1 {
			t.Errorf("after %v it was said %d times: %v", first, said, err)
		}
	}
}
