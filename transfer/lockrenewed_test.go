package transfer_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// slowSync runs a sync to a host that takes an hour to create a file. during is called while it
// lasts, in a bubble.
func slowSync(t *testing.T, during func(server *sftptest.Scripted, dial func() pool.Host)) error {
	t.Helper()
	return slowSyncTo(t, func(sftptest.Request) []sftptest.Action { return nil }, during)
}

// slowSyncTo is slowSync to a host that may do something else, too.
func slowSyncTo(t *testing.T, intercept func(sftptest.Request) []sftptest.Action,
	during func(server *sftptest.Scripted, dial func() pool.Host)) error {
	t.Helper()
	server := sftptest.NewServer(t,
		sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && r.Stream == 1 && strings.Contains(r.Path, "slow") {
				return []sftptest.Action{sftptest.Delay(time.Hour)}
			}
			return intercept(r)
		}})
	dial := func() pool.Host {
		t.Helper()
		return connect(t, server.Dial(sftptest.LinkConfig{}), inOrder)
	}
	src := t.TempDir()
	if err := os.WriteFile(filepath.Join(src, "slow"), []byte("data"), 0o644); err != nil {
		t.Fatal(err)
	}
	host := dial()
	ended := make(chan error, 1)
	go func() {
		_, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{})
		ended <- err
	}()
	during(server, dial)
	return <-ended
}

// A lock is renewed as long as its run lasts, however long that is, and keeps others out.
func TestSyncLockIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := slowSync(t, func(server *sftptest.Scripted, dial func() pool.Host) {
			other, src := dial(), t.TempDir()
			before := time.Time{}
			for range 5 {
				time.Sleep(transfer.LockStale)
				var holder transfer.Holder
				data, err := server.Files.ReadFile("/dst/" + transfer.LockName)
				if err == nil {
					err = json.Unmarshal(data, &holder)
				}
				if err != nil || !holder.Renewed.After(before) ||
					time.Since(holder.Renewed) > 2*time.Minute {
					t.Errorf("the lock was renewed at %v, and now it is %v: %v", holder.Renewed,
						time.Now(), err)
				}
				before = holder.Renewed
				_, err = transfer.Sync(t.Context(), transfer.Remote(other, "/dst"),
					transfer.Local(src), transfer.SyncOptions{})
				var locked *transfer.LockedError
				if !errors.As(err, &locked) || locked.Age > 2*time.Minute {
					t.Errorf("a second run: %v", err)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A run whose lock somebody else has taken over, since it could not renew it, stops, and leaves the
// other's lock alone.
func TestSyncLockIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = `{"host":"alpha","pid":7,"id":"other"}`
		var server *sftptest.Scripted
		began := time.Now()
		err := slowSync(t, func(s *sftptest.Scripted, _ func() pool.Host) {
			server = s
			time.Sleep(30 * time.Second)
			s.Files.WriteFile("/dst/"+transfer.LockName, []byte(other))
		})
		if err == nil || !strings.Contains(err.Error(), "taken over the lock") {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("it went on for %v", took)
		}
		if data, err := server.Files.ReadFile("/dst/" + transfer.LockName); err != nil ||
			string(data) != other {
			t.Errorf("the other's lock is %q, %v", data, err)
		}
		if server.Files.Exists("/dst/slow") {
			t.Error("it went on to copy")
		}
	})
}

// A link that somebody puts in the place of the lock is not written through, and the run, whose
// lock it no longer is, stops before others may take it over.
func TestSyncLockIsReplacedByALink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const victim, precious = "/victim", "precious"
		var server *sftptest.Scripted
		err := slowSync(t, func(s *sftptest.Scripted, _ func() pool.Host) {
			server = s
			time.Sleep(30 * time.Second)
			s.Files.WriteFile(victim, []byte(precious))
			s.Files.Remove("/dst/" + transfer.LockName)
			s.Files.Symlink(victim, "/dst/"+transfer.LockName)
		})
		if err == nil || !strings.Contains(err.Error(), ".usftp-sync.lock is not a regular file") {
			t.Errorf("it ended with %v", err)
		}
		if data, err := server.Files.ReadFile(victim); err != nil || string(data) != precious {
			t.Errorf("the file that the link names is %q, %v", data, err)
		}
		if server.Files.Exists("/dst/slow") {
			t.Error("it went on to copy")
		}
	})
}

// A run that could not look at its lock for long, as if it had been stopped, looks at it before it
// gives a file its name: another run may be at work by now.
func TestSyncLockIsCheckedAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = `{"host":"alpha","pid":7,"id":"other"}`
		began := time.Now()
		var server *sftptest.Scripted
		err := slowSyncTo(t, func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && strings.HasSuffix(r.Path, transfer.LockName) &&
				time.Since(began) > 30*time.Second {
				return []sftptest.Action{sftptest.Delay(2 * time.Hour)}
			}
			return nil
		}, func(s *sftptest.Scripted, _ func() pool.Host) {
			server = s
			time.Sleep(lockTakenOver)
			s.Files.WriteFile("/dst/"+transfer.LockName, []byte(other))
		})
		if err == nil || !strings.Contains(err.Error(), "taken over the lock") {
			t.Errorf("it ended with %v", err)
		}
		if server.Files.Exists("/dst/slow") {
			t.Error("it went on to copy")
		}
	})
}

// Nor does it remove what is in the way of a directory.
func TestSyncLockIsCheckedBeforeMakingWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = `{"host":"alpha","pid":7,"id":"other"}`
		lock, began := "/dst/"+transfer.LockName, time.Now()
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			switch {
			case r.Type == wire.TypeOpen && r.Path == lock && time.Since(began) > 30*time.Second:
				return []sftptest.Action{sftptest.Delay(2 * time.Hour)}
			case r.Type == wire.TypeReaddir && r.Path == "/dst/dir":
				return []sftptest.Action{sftptest.Delay(time.Hour)}
			}
			return nil
		}}, sftptest.LinkConfig{})
		src := filepath.Join(b.dir, "src")
		fill(t, src, "dir/way/file")
		b.server.Files.WriteFile("/dst/dir/way", []byte("another run's"))
		time.AfterFunc(lockTakenOver, func() { b.server.Files.WriteFile(lock, []byte(other)) })
		j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
		if _, err := j.run(t); err == nil || !strings.Contains(err.Error(), "taken over the lock") {
			t.Errorf("it ended with %v", err)
		}
		if got := string(b.remote("/dst/dir/way")); got != "another run's" {
			t.Errorf("what was in the way is %q", got)
		}
	})
}

// Nor does an attempt that follows a lost connection complete a rename, or write in place.
func TestSyncLockIsCheckedAfterALostConnection(t *testing.T) {
	const other = `{"host":"alpha","pid":7,"id":"other"}`
	lock := "/dst/" + transfer.LockName
	for name, placement := range map[string]transfer.Placement{"rename": transfer.PlaceAtomic,
		"in place": transfer.PlaceDirect} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				b := newTreeBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						switch {
						case r.Type == wire.TypeOpen && r.Path == lock &&
							time.Since(began) > 30*time.Second:
							return []sftptest.Action{sftptest.Delay(2 * time.Hour)}
						case r.Stream == 1 && (renames(r) ||
							r.Type == wire.TypeWrite && r.Path == "/dst/file"):
							return []sftptest.Action{sftptest.Hangup()}
						}
						return nil
					}}, sftptest.LinkConfig{})
				b.host.Redial = func(context.Context) (pool.Host, error) {
					time.Sleep(2 * lockTakenOver)
					b.reconnect(sftptest.LinkConfig{})
					return b.host, nil
				}
				src := filepath.Join(b.dir, "src")
				fill(t, src, "file")
				b.server.Files.WriteFile("/dst/file", []byte("old"))
				time.AfterFunc(lockTakenOver, func() {
					b.server.Files.WriteFile(lock, []byte(other))
					b.server.Files.WriteFile("/dst/file", []byte("another run's"))
				})
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
				j.options.Retry = pool.Retry{Retries: 3, RetryFor: time.Hour}
				j.options.Placement = placement
				if _, err := j.run(t); err == nil ||
					!strings.Contains(err.Error(), "taken over the lock") {
					t.Errorf("it ended with %v", err)
				}
				if got := string(b.remote("/dst/file")); got != "another run's" {
					t.Errorf("the file is %q", got)
				}
			})
		})
	}
}

// A host that is slow to answer is no other run: a run whose lock is renewed goes on, and one that
// could not see that says so.
func TestSyncLockOnASlowHost(t *testing.T) {
	for answer, fails := range map[time.Duration]bool{2 * time.Minute: false, 6 * time.Minute: true} {
		t.Run(answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := slowSyncTo(t, func(r sftptest.Request) []sftptest.Action {
					if strings.HasSuffix(r.Path, transfer.LockName) && time.Since(began) > 30*time.Second &&
						(r.Type == wire.TypeLstat || r.Type == wire.TypeOpen) {
						return []sftptest.Action{sftptest.Delay(answer)}
					}
					return nil
				}, func(*sftptest.Scripted, func() pool.Host) {})
				if (err != nil) != fails || fails &&
					!strings.Contains(err.Error(), "could not be renewed for more than 5m0s") {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// A run that has been away for long does not remove the lock that another run has by now.
func TestSyncLockOfAnotherRunStays(t *testing.T) {
	const other = `{"host":"alpha","pid":7,"id":"other"}`
	lock := "/dst/" + transfer.LockName
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if time.Since(began) > 30*time.Second && r.Type == wire.TypeLstat && r.Path == lock ||
				r.Type == wire.TypeOpen && r.Path != lock {
				return []sftptest.Action{sftptest.Delay(time.Hour)}
			}
			return nil
		}}, sftptest.LinkConfig{})
		src := filepath.Join(b.dir, "src")
		fill(t, src, "file")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(lockTakenOver, func() {
			b.server.Files.WriteFile(lock, []byte(other))
			cancel()
		})
		_, err := transfer.Sync(ctx, transfer.Remote(b.host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if got := string(b.remote(lock)); got != other {
			t.Errorf("the lock is %q", got)
		}
	})
}

// An interrupted run removes its own lock, also if it could not renew it for long.
func TestSyncLockIsRemovedAfterAPause(t *testing.T) {
	lock := "/dst/" + transfer.LockName
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			now := time.Since(began)
			if r.Type == wire.TypeLstat && r.Path == lock && now > 30*time.Second && now < lockTakenOver ||
				r.Type == wire.TypeOpen && r.Path != lock {
				return []sftptest.Action{sftptest.Delay(time.Hour)}
			}
			return nil
		}}, sftptest.LinkConfig{})
		src := filepath.Join(b.dir, "src")
		fill(t, src, "file")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(lockTakenOver, cancel)
		_, err := transfer.Sync(ctx, transfer.Remote(b.host, "/dst"), transfer.Local(src),
			transfer.SyncOptions{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if b.server.Files.Exists(lock) {
			t.Error("the lock was left behind")
		}
	})
}

// Nor does a run that was away for long repeat any other change before it has looked at its lock.
func TestSyncLockIsCheckedBeforeRepeating(t *testing.T) {
	const other = `{"host":"alpha","pid":7,"id":"other"}`
	lock := "/dst/" + transfer.LockName
	for name, test := range map[string]struct {
		on      wire.Type
		options transfer.SyncOptions
	}{
		"delete":    {on: wire.TypeRemove, options: transfer.SyncOptions{Delete: true}},
		"to backup": {on: wire.TypeRename, options: transfer.SyncOptions{Delete: true, BackupDir: "old"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					if r.Path == "/dst/extra" && r.Stream == 1 && (r.Type == test.on || renames(r)) {
						return []sftptest.Action{sftptest.LastReply(), sftptest.Hangup()}
					}
					return nil
				}}, sftptest.LinkConfig{})
				b.host.Redial = func(context.Context) (pool.Host, error) {
					time.Sleep(lockTakenOver)
					b.server.Files.WriteFile(lock, []byte(other))
					b.server.Files.WriteFile("/dst/extra", []byte("another run's"))
					b.reconnect(sftptest.LinkConfig{})
					return b.host, nil
				}
				src := filepath.Join(b.dir, "src")
				fill(t, src, "file")
				b.server.Files.WriteFile("/dst/extra", []byte("extra"))
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst", options: test.options}
				j.options.Retry = pool.Retry{Retries: 3, RetryFor: time.Hour}
				if _, err := j.run(t); err == nil || !strings.Contains(err.Error(), "taken over the lock") {
					t.Errorf("it ended with %v", err)
				}
				if got := string(b.remote("/dst/extra")); got != "another run's" {
					t.Errorf("the file is %q", got)
				}
				if got := string(b.remote(lock)); got != other {
					t.Errorf("the lock is %q", got)
				}
			})
		})
	}
}

// A lock that another run has taken over stays the other's if the connection was lost while it was
// renewed, or removed: the request is not repeated before another look.
func TestSyncLockOfAnotherRunIsNotTouchedAgain(t *testing.T) {
	const other = `{"host":"alpha","pid":7,"id":"other"}`
	lock := "/dst/" + transfer.LockName
	for on, says := range map[wire.Type]string{wire.TypeWrite: "taken over the lock", wire.TypeRemove: ""} {
		t.Run(on.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				b := newTreeBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						switch {
						case r.Path == lock && r.Type == on && r.Stream == 1 &&
							time.Since(began) > 30*time.Second:
							return []sftptest.Action{sftptest.LastReply(), sftptest.Hangup()}
						case r.Type == wire.TypeOpen && r.Path != lock && on == wire.TypeWrite:
							return []sftptest.Action{sftptest.Delay(time.Hour)}
						case r.Type == wire.TypeOpen && r.Path != lock:
							return []sftptest.Action{sftptest.Delay(40 * time.Second)}
						}
						return nil
					}}, sftptest.LinkConfig{})
				b.host.Redial = func(context.Context) (pool.Host, error) {
					time.Sleep(lockTakenOver)
					b.server.Files.WriteFile(lock, []byte(other))
					b.reconnect(sftptest.LinkConfig{})
					return b.host, nil
				}
				src := filepath.Join(b.dir, "src")
				fill(t, src, "file")
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
				j.options.Retry = pool.Retry{Retries: 3, RetryFor: time.Hour}
				_, err := j.run(t)
				if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
					t.Errorf("it ended with %v", err)
				}
				if got := string(b.remote(lock)); got != other {
					t.Errorf("the lock is %q", got)
				}
			})
		})
	}
}

const lockTakenOver = transfer.LockStale + time.Minute

// If the connection is lost after the lock was made and before it was written, it is taken all the
// same, and the next run does not find it in its way.
func TestSyncLockIsCutOff(t *testing.T) {
	for _, on := range []wire.Type{wire.TypeOpen, wire.TypeWrite, wire.TypeClose, wire.TypeRemove} {
		t.Run(on.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Bool
				b := newTreeBench(t, sftptest.Script{
					Intercept: func(r sftptest.Request) []sftptest.Action {
						if r.Type == on && r.Path == "/dst/"+
							transfer.LockName && !asked.Swap(true) {
							return []sftptest.Action{sftptest.LastReply(), sftptest.Hangup()}
						}
						return nil
					}}, sftptest.LinkConfig{})
				b.redials(sftptest.LinkConfig{}, nil)
				src := filepath.Join(b.dir, "src")
				fill(t, src, "file")
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
				j.options.Retries = 3
				began := time.Now()
				j.must(t)
				if took := time.Since(began); took > 2*time.Second || !asked.Load() {
					t.Errorf("it took %v", took)
				}
				if b.server.Files.Exists("/dst/" + transfer.LockName) {
					t.Error("the lock was left behind")
				}
			})
		})
	}
}

// While the lock is being written, the target is listed, but nothing there is changed. If it cannot
// be written, that is the run's error.
func TestSyncWaitsForItsLock(t *testing.T) {
	const wait = 2 * time.Second
	lock := "/dst/" + transfer.LockName
	for name, refused := range map[string]bool{"written": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					switch {
					case r.Type != wire.TypeWrite || r.Path != lock:
						return nil
					case refused:
						return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, ""),
							sftptest.Delay(wait)}
					}
					return []sftptest.Action{sftptest.Delay(wait)}
				}}, sftptest.LinkConfig{})
				src := filepath.Join(b.dir, "src")
				fill(t, src, "dir/file", "way/file", "é")
				for _, name := range []string{"way", "extra", "é"} {
					b.server.Files.WriteFile("/dst/"+name, []byte(name))
				}
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst",
					options: transfer.SyncOptions{Delete: true}}
				began := time.Now()
				_, err := j.run(t)
				if (err != nil) != refused || refused && (errors.As(err, new(*transfer.TreeError)) ||
					!strings.Contains(err.Error(), "no lock file can be created in the target")) {
					t.Errorf("it ended with %T %v", err, err)
				}
				listed := false
				for _, r := range b.server.Requests() {
					early := r.At.Sub(began) < wait
					listed = listed || early && r.Type == wire.TypeReaddir && r.Path == "/dst"
					if (early || refused) && r.Path != lock && altering(r) {
						t.Errorf("%v before the lock was written", r)
					}
				}
				if !listed {
					t.Error("the target was not listed meanwhile")
				}
			})
		})
	}
}

// altering reports whether a request changes what a server has.
func altering(r sftptest.Request) bool {
	switch r.Type {
	case wire.TypeMkdir, wire.TypeRmdir, wire.TypeRemove, wire.TypeRename, wire.TypeSetstat,
		wire.TypeFsetstat, wire.TypeWrite, wire.TypeSymlink:
		return true
	}
	return renames(r) || r.Type == wire.TypeOpen && r.Flags&wire.OpenWrite != 0
}

// If the connection is lost while the lock is removed and the target gets its times, it has them in
// the end, and there is no lock.
func TestSyncLockIsRemovedBeforeTheTimes(t *testing.T) {
	lock := "/dst/" + transfer.LockName
	for _, on := range []wire.Type{wire.TypeRemove, wire.TypeSetstat} {
		for name, lost := range map[string][]sftptest.Action{"before": {sftptest.Hangup()},
			"after": {sftptest.LastReply(), sftptest.Hangup()}} {
			t.Run(on.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					asked := false
					b := newTreeBench(t, sftptest.Script{
						Intercept: func(r sftptest.Request) []sftptest.Action {
							if r.Type == on && (r.Path == lock || r.Path == "/dst") && !asked {
								asked = true
								return lost
							}
							return nil
						}}, sftptest.LinkConfig{})
					b.redials(sftptest.LinkConfig{}, nil)
					src := filepath.Join(b.dir, "src")
					fill(t, src, "file")
					old := time.Now().Add(-time.Hour).Truncate(time.Second)
					if err := os.Chtimes(src, old, old); err != nil {
						t.Fatal(err)
					}
					j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
					j.options.Retries = 3
					j.must(t)
					b.reconnect(sftptest.LinkConfig{})
					is, err := b.host.Client.Stat("/dst")
					if err != nil || !is.ModTime().Equal(old) || !asked || b.server.Files.Exists(lock) {
						t.Errorf("the target is %v, want %v; %v", is, old, err)
					}
				})
			})
		}
	}
}

// A lock that is empty is about to be written: whoever wants it waits for that, but not for long.
func TestSyncEmptyLock(t *testing.T) {
	for name, written := range map[string]bool{"then written": true, "never written": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				src := filepath.Join(b.dir, "src")
				fill(t, src, "file")
				lock := "/dst/" + transfer.LockName
				b.server.Files.WriteFile(lock, nil)
				b.server.Files.SetModTime(lock, time.Now())
				if written {
					time.AfterFunc(time.Second, func() {
						b.server.Files.Append(lock, []byte(`{"id":"other"}`))
					})
				}
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
				began := time.Now()
				_, err := j.run(t)
				if errors.Is(err, transfer.ErrLocked) != written || !written && err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < 4*time.Second || took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestSyncLockWithoutTimes: on a host that tells no times a lock expires, too, if nobody renews it,
// whatever the clock of its holder says.
func TestSyncLockWithoutTimes(t *testing.T) {
	for name, test := range map[string]struct {
		renewed time.Duration // before the sync, by the holder's clock
		alive   bool
		held    bool
	}{
		"fresh":                         {renewed: time.Minute, held: true},
		"old":                           {renewed: time.Hour},
		"alive, by a clock that is off": {renewed: time.Hour, alive: true, held: true},
		"by a clock ahead of ours":      {renewed: -time.Hour},
		"empty":                         {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTreeBench(t, sftptest.Script{HideAttrs: wire.AttrACModTime},
					sftptest.LinkConfig{})
				src := filepath.Join(b.dir, "src")
				fill(t, src, "file")
				lock, began := "/dst/"+transfer.LockName, time.Now()
				renew := func() {
					data, _ := json.Marshal(transfer.Holder{ID: "other",
						Renewed: time.Now().Add(-test.renewed)})
					b.server.Files.WriteFile(lock, data)
				}
				if test.renewed != 0 {
					renew()
				} else {
					b.server.Files.WriteFile(lock, nil)
				}
				if test.alive {
					time.AfterFunc(time.Minute, renew)
				}
				j := &syncJob{direction: upload, far: b.host, src: src, dst: "/dst"}
				_, err := j.run(t)
				if errors.Is(err, transfer.ErrLocked) != test.held || !test.held && err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 5*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A lock that an earlier sync of the same owner has left does not keep the next one out.
func TestSyncLockOwner(t *testing.T) {
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		fill(t, src, "file")
		data, err := json.Marshal(transfer.Holder{PID: os.Getpid(), ID: "earlier", Owner: "one"})
		if err == nil {
			err = os.Mkdir(dst, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dst, transfer.LockName), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		j := &syncJob{direction: direction, far: far, src: src, dst: dst}
		for _, owner := range []string{"", "two"} {
			j.options.LockOwner = owner
			if _, err := j.run(t); !errors.Is(err, transfer.ErrLocked) {
				t.Errorf("owner %q: %v", owner, err)
			}
		}
		j.options.LockOwner = "one"
		j.must(t)
		sameTrees(t, src, dst)
	})
}
