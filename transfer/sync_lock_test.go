package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

func withCancel(t *testing.T) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// Only one run at a time has the target; a second one is told who has it.
func TestSyncLock(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "a")
		to, from := direction.endpoints(far, far, src, dst, nil, nil)
		inside := 0
		first := transfer.SyncOptions{}
		first.Events = func(e transfer.Event) {
			if e.Kind != transfer.Done {
				return
			}
			inside++
			other := sftpServer(t)
			to, from := direction.endpoints(other, other, src, dst, nil, nil)
			_, err := transfer.Sync(t.Context(), to, from, transfer.SyncOptions{})
			var locked *transfer.LockedError
			if !errors.As(err, &locked) || !errors.Is(err, transfer.ErrLocked) ||
				locked.Holder.PID != os.Getpid() {
				t.Errorf("the second run: %v", err)
			}
			if _, err := transfer.Sync(t.Context(), to, from,
				transfer.SyncOptions{NoLock: true}); err != nil {
				t.Errorf("without a lock: %v", err)
			}
			dry := transfer.SyncOptions{}
			dry.DryRun = true
			if _, err := transfer.Sync(t.Context(), to, from, dry); err != nil {
				t.Errorf("a dry run: %v", err)
			}
		}
		if _, err := transfer.Sync(t.Context(), to, from, first); err != nil {
			t.Fatal(err)
		}
		if inside != 1 {
			t.Fatalf("%d files were copied", inside)
		}
		sameTrees(t, src, dst)
	})
}

// The lock of a killed run is void once it is old, whatever it contains, or at once if its process
// is known to have ended.
func TestSyncVoidLock(t *testing.T) {
	gone := exec.Command(os.Args[0], "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err := os.Readlink("/proc/self/ns/pid")
	zombie := exec.Command(os.Args[0], "-test.run=^$")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { zombie.Wait() })
	if err == nil {
		testenv.Until(t, "it has ended", func() bool {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", zombie.Process.Pid))
			return strings.Contains(string(stat), ") Z ")
		})
	}
	here := strings.TrimSpace(string(boot)) + " " + space
	holder := func(pid int, machine string) string {
		data, _ := json.Marshal(transfer.Holder{Host: "alpha", PID: pid, Started: time.Now(),
			ID:      "x",
			Machine: machine})
		return string(data)
	}
	for name, test := range map[string]struct {
		text string
		age  time.Duration
		held bool
		skip bool
	}{
		"fresh": {text: holder(1, "elsewhere"), held: true},
		"nearly void": {text: holder(1, "elsewhere"),
			age: transfer.LockStale - time.Minute, held: true},
		"old": {text: holder(1, "elsewhere"), age: transfer.LockStale +
			time.Minute},
		"its process is gone": {text: holder(gone.Process.Pid, here), skip: err != nil},
		"its parent has not heard of its end": {text: holder(zombie.Process.Pid, here),
			skip: err != nil},
		"its process is there":         {text: holder(os.Getpid(), here), held: true},
		"gone, and on another machine": {text: holder(gone.Process.Pid, "elsewhere"), held: true},
		"empty":                        {age: 10 * time.Second},
		"empty and old":                {age: time.Hour},
		"nonsense and old":             {text: "{{{", age: time.Hour},
		"by a clock set back":          {text: holder(1, "elsewhere"), age: -time.Hour},
		"by a clock a bit ahead":       {text: holder(1, "elsewhere"), age: -time.Minute, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.skip {
				testenv.Unavailable(t, "a system that says where process numbers are valid")
			}
			everyWay(t, func(t *testing.T, direction way, far pool.Host) {
				dir := t.TempDir()
				src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
				fill(t, src, "a")
				os.Mkdir(dst, 0o755)
				lock := filepath.Join(dst, transfer.LockName)
				os.WriteFile(lock, []byte(test.text), 0o644)
				when := time.Now().Add(-test.age)
				os.Chtimes(lock, when, when)
				j := &syncJob{direction: direction, far: far, src: src, dst: dst,
					options: transfer.SyncOptions{Delete: true}}
				_, err := j.run(t)
				if held := errors.Is(err, transfer.ErrLocked); held != test.held ||
					!held && err != nil {
					t.Fatal(err)
				}
				if !test.held {
					sameTrees(t, src, dst)
				} else if data, _ := os.ReadFile(lock); string(data) != test.text {
					t.Errorf("the lock is %q now", data)
				}
			})
		})
	}
}

// A host that refuses to say what is there lists it: the lock of a killed run is void there, too, a
// held one is respected, and what cannot be known is said.
func TestSyncLockOnAHostThatDoesNotTell(t *testing.T) {
	held, _ := json.Marshal(transfer.Holder{Host: "alpha", PID: 1, Started: time.Now(), ID: "x"})
	for name, test := range map[string]struct {
		refused []wire.Type
		age     time.Duration
		says    string // the error
	}{
		"fresh": {says: "process 1 on alpha"},
		"old":   {age: transfer.LockStale + time.Minute},
		"not listed": {refused: []wire.Type{wire.TypeOpendir}, age: time.Hour,
			says: "does not say whether there is one: remove " + transfer.LockName},
	} {
		t.Run(name, func(t *testing.T) {
			b := reticent{asked: append(test.refused, wire.TypeStat, wire.TypeLstat, wire.TypeFstat),
				answer: sftptest.Refuse(wire.PermissionDenied, "")}.bench(t)
			lock := "/in/" + transfer.LockName
			b.server.Files.WriteFile(lock, held)
			b.server.Files.SetModTime(lock, time.Now().Add(-test.age))
			source := filepath.Join(b.dir, "source")
			fill(t, source, "a")
			j := &syncJob{direction: upload, far: b.host, src: source, dst: "/in/"}
			_, err := j.run(t)
			if (err == nil) != (test.says == "") || err != nil &&
				!strings.Contains(err.Error(), test.says) {
				t.Errorf("it ends with %v", err)
			}
			if err == nil && b.server.Files.Exists(lock) || err != nil &&
				string(b.remote(lock)) != string(held) {
				t.Errorf("the lock is %q now", b.remote(lock))
			}
		})
	}
}

// The lock stays on a host that removes no file, once, and keeps nobody out when its run has ended.
// That of a killed run is void after a while.
func TestSyncLockOnAHostThatKeepsAll(t *testing.T) {
	for name, others := range map[string][]wire.Type{"renames": {wire.TypeRemove},
		"does not rename": {wire.TypeRemove, wire.TypeRename}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := reticent{others: others}.bench(t)
				source := filepath.Join(b.dir, "source")
				fill(t, source, "a", "\u00e9")
				sync := func(delete bool) (notes []string, err error) {
					j := &syncJob{direction: upload, far: b.host, src: source, dst: "/in/"}
					j.options.Delete = delete
					_, err = j.run(t)
					for _, e := range j.events {
						if e.Kind == transfer.Warning {
							notes = append(notes, e.Message)
						}
					}
					b.reconnect(sftptest.LinkConfig{}) // to a host of which nothing is known
					return notes, err
				}
				notes, err := sync(false)
				if err != nil || !slices.ContainsFunc(notes, func(note string) bool {
					return strings.Contains(note, transfer.LockName+" stays")
				}) {
					t.Fatalf("the first run ends with %v and says %q", err, notes)
				}
				there := b.server.Files.List()
				for i := range 2 {
					b.local("source/a", bytes.Repeat([]byte("longer"), i+2))
					notes, err := sync(true)
					if silent := len(others) == 1; err != nil || silent != (len(notes) == 0) ||
						!silent && (len(notes) > 1 || !strings.Contains(notes[0], "in place")) {
						t.Errorf("the next one ends with %v and says %q", err, notes)
					}
				}
				if now := b.server.Files.List(); !slices.Equal(now, there) {
					t.Errorf("of %q there are now %q", there, now)
				}

				lock := "/in/" + transfer.LockName
				held, _ := json.Marshal(transfer.Holder{Host: "alpha", PID: 1, ID: "x"})
				b.server.Files.WriteFile(lock, held)
				b.server.Files.SetModTime(lock, time.Now())
				if _, err := sync(false); !errors.Is(err, transfer.ErrLocked) {
					t.Errorf("while another one holds the lock: %v", err)
				}
				b.server.Files.SetModTime(lock, time.Now().Add(-transfer.LockStale-time.Minute))
				if _, err := sync(false); err != nil {
					t.Errorf("after a killed one: %v", err)
				}
			})
		})
	}
}

// There, an interrupted run releases its lock, too.
func TestSyncLockOfAnInterruptedRunOnAHostThatKeepsAll(t *testing.T) {
	ctx, cancel := withCancel(t)
	b := newTreeBench(t, sftptest.Script{Refuse: []wire.Type{wire.TypeRemove},
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && strings.Contains(r.Path, "file") && ctx.Err() == nil {
				return []sftptest.Action{sftptest.Call("interrupt", func(sftptest.Request) { cancel() })}
			}
			return nil
		}}, sftptest.LinkConfig{})
	src := filepath.Join(b.dir, "src")
	fill(t, src, "file")
	if _, err := transfer.Sync(ctx, transfer.Remote(b.host, "/dst"), transfer.Local(src),
		transfer.SyncOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.reconnect(sftptest.LinkConfig{})
	(&syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}).must(t)
}

// A stale lock that another run takes over, renews or removes just then stays that run's.
func TestSyncStaleLockThatAnotherRunHas(t *testing.T) {
	const lock = "/dst/" + transfer.LockName
	stale, _ := json.Marshal(transfer.Holder{Host: "alpha", PID: 1, ID: "stale"})
	other, _ := json.Marshal(transfer.Holder{Host: "beta", PID: 2, ID: "other"})
	takenOver := func(b *bench) {
		b.server.Files.WriteFile(lock, other)
		b.server.Files.SetModTime(lock, time.Now())
	}
	for name, test := range map[string]struct {
		meanwhile func(b *bench) // before the lock is moved aside
		refused   func(r sftptest.Request) bool
		says      string
		stays     []byte
	}{
		"taken over": {says: "process 2 on beta", stays: other, meanwhile: takenOver},
		"cannot be read": {says: "cannot be taken over", stays: other, meanwhile: takenOver,
			refused: func(r sftptest.Request) bool {
				return r.Type == wire.TypeOpen && strings.HasPrefix(r.Path, "/dst/.") && r.Path != lock &&
					r.Flags&wire.OpenWrite == 0
			}},
		"removed": {meanwhile: func(b *bench) { b.server.Files.Remove(lock) }},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			done := false
			b = newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				switch {
				case renames(r) && r.Path == lock && !done:
					done = true
					test.meanwhile(b)
				case test.refused != nil && test.refused(r) && done:
					return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
				}
				return nil
			}}, sftptest.LinkConfig{})
			b.server.Files.WriteFile(lock, stale)
			b.server.Files.SetModTime(lock, time.Now().Add(-transfer.LockStale-time.Minute))
			src := filepath.Join(b.dir, "src")
			fill(t, src, "file")
			_, err := (&syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}).run(t)
			if (err == nil) != (test.says == "") || err != nil && (!errors.Is(err, transfer.ErrLocked) ||
				!strings.Contains(err.Error(), test.says)) {
				t.Errorf("it ends with %v", err)
			}
			if got, _ := b.server.Files.ReadFile(lock); !bytes.Equal(got, test.stays) {
				t.Errorf("the lock is %q", got)
			}
			if left := b.server.Files.List(); len(left) != 2 {
				t.Errorf("there are %q", left)
			}
		})
	}
}

// A run does not take its own empty lock for another's, if it can be neither written nor removed.
func TestSyncLockThatCannotBeWritten(t *testing.T) {
	b := reticent{others: []wire.Type{wire.TypeWrite, wire.TypeRemove}}.bench(t)
	source := filepath.Join(b.dir, "source")
	fill(t, source, "a")
	_, err := (&syncJob{direction: upload, far: b.host, src: source, dst: "/in/"}).run(t)
	if errors.Is(err, transfer.ErrLocked) || !errors.Is(err, fs.ErrPermission) ||
		!strings.Contains(err.Error(), "the lock ("+transfer.LockName+") cannot be written") {
		t.Error(err)
	}
	want := []string{"/in/", "/in/" + transfer.LockName}
	if got := b.server.Files.List(); !slices.Equal(got, want) {
		t.Errorf("there are %q", got)
	}
}

// Something else of the lock's name is left alone, and the error says what it is.
func TestSyncLockThatIsNoFile(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "a")
		fill(t, filepath.Join(dst, transfer.LockName), "file")
		_, err := (&syncJob{direction: direction, far: far, src: src, dst: dst}).run(t)
		if err == nil || !strings.Contains(err.Error(), transfer.LockName+" is not a regular file") {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dst, transfer.LockName, "file")); err != nil {
			t.Error(err)
		}
	})
}
