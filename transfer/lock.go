package transfer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private"
)

// Two syncs to one target at once would each delete the files that the other has just copied. So a
// sync keeps a lock in the target, a file that names its process, and renews it while it runs. A
// lock that has not been renewed for a while was left by a killed run, and is taken over. All times
// are the target's, since clocks disagree.

const (
	// lockName is the name of the file in the target that keeps out other Syncs.
	lockName = localfs.SyncLock

	// lockStale is how long a lock that is not renewed keeps others out. A lock whose process is known
	// to have ended keeps nobody out, nor does one dated so far in the future, by a clock that has
	// been set back since.
	lockStale = 10 * time.Minute

	lockRenewed = time.Minute
	longestLock = 4 << 10

	// lockWritten is how long a lock may be empty: it is written right after it is made. If it stays
	// empty, its run was killed, or lost its connection, in between.
	lockWritten = 5 * time.Second

	// lockRepeated is the limit if this run lost its connection while it made the lock: the empty one
	// is most likely its own.
	lockRepeated = time.Second
)

var (
	// ErrLocked reports that another Sync to the same target is in progress.
	ErrLocked = errors.New("another sync to it is running")

	errLockLost = errors.New(
		"another sync has taken over the lock of the target, because this one could not renew it in time")

	// errLockGone may also be what such a sync leaves at its end.
	errLockGone = errors.New("the lock of the target (" + lockName + ") has been removed: another sync may be running")

	errLockOld = fmt.Errorf("the lock of the target could not be "+
		"renewed for more than %v, so another sync may take it over", lockStale/2)

	errSlow = errors.New("the target takes too long to answer")
)

// LockedError says which process syncs to the target. errors.Is(err, ErrLocked) holds.
type LockedError struct {
	Holder Holder
	Age    time.Duration // since the lock was renewed
}

func (e *LockedError) Error() string {
	h := &e.Holder
	who := "somebody"
	if h.Host != "" {
		who = fmt.Sprintf("process %d on %s, since %s", h.PID, h.Host,
			h.Started.Format(time.RFC3339))
	}
	return fmt.Sprintf("%v: %s; last seen %v ago. Wait until it is done. The lock (%s) of a run "+
		"that was killed expires after %v; transfer.SyncOptions.NoLock ignores it", ErrLocked, who,
		e.Age.Round(time.Second), lockName, lockStale)
}

func (e *LockedError) Unwrap() error { return ErrLocked }

// A Holder identifies the process that holds the lock of a target.
type Holder struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Renewed time.Time `json:"renewed"`
	ID      string    `json:"id"`
	Owner   string    `json:"owner,omitempty"`   // SyncOptions.LockOwner
	Machine string    `json:"machine,omitempty"` // where PID is valid
}

// ended reports whether the holder is known to have ended.
func (h *Holder) ended() bool {
	if h.Machine == "" || h.Machine != processSpace() || h.PID <= 0 {
		return false
	}
	process, err := os.FindProcess(h.PID)
	if err == nil {
		err = process.Signal(syscall.Signal(0))
	}
	// A zombie may be there for long: some containers have no init that waits for it. See
	// proc_pid_stat(5).
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.PID))
	name := strings.LastIndexByte(string(stat), ')') // which may hold anything
	return strings.HasPrefix(string(stat[name+1:]), " Z") || errors.Is(err, os.ErrProcessDone) ||
		errors.Is(err, syscall.ESRCH)
}

// processSpace identifies the system and namespace in which process numbers are valid, "" if
// unknown.
func processSpace() string {
	boot := localfs.BootID()
	processes, err := os.Readlink("/proc/self/ns/pid")
	if boot == "" || err != nil {
		return ""
	}
	return boot + " " + processes
}

// A lock is this run's lock on its target.
type lock struct {
	tree   *tree
	files  endpoint.Root
	once   endpoint.Root // repeats nothing if the connection was lost: the error is ErrRepeated
	holder Holder
	stop   func()

	// made is called while the lock is being written. asks is how often that was, and alone is set if
	// no other run can have had the lock since the first time.
	made  func()
	asks  int
	alone bool

	// width is the minimum length of the lock's text: the length of one it overwrites.
	width int

	renewing chan struct{}             // holds a token while a goroutine renews it
	shown    atomic.Pointer[time.Time] // when the lock was last known to be held and renewed

	// foldsCase waits for the answer and reports whether the target finds the lock by an upper-case
	// name, too: names that differ only in case are one file there.
	foldsCase func() bool
	knowsCase func() bool // reports whether the answer is conclusive
}

// newLock takes the lock, or returns a *LockedError. made may be called while the lock is being
// written: what is asked from then on is answered while it is held if the lock's alone is set.
func newLock(s *syncing, made func()) (*lock, error) {
	host, _ := os.Hostname()
	into := s.tree.into.Root
	l := &lock{tree: s.tree, files: into, once: into, made: made,
		holder: Holder{Host: host, PID: os.Getpid(), Started: time.Now().Truncate(time.Second),
			ID: rand.Text(), Owner: s.options.LockOwner, Machine: processSpace()}}
	if s.tree.dst.Conn() != nil { // the tree's Root asks the lock
		for _, files := range []*endpoint.Root{&l.files, &l.once} {
			var err error
			if *files, err = s.tree.dst.Below(s.tree.into.path); err != nil {
				return nil, err
			}
		}
		l.once.Guard(func() error { return endpoint.ErrRepeated })
	}
	began, err := l.take()
	if err != nil {
		return nil, err
	}
	return l.begin(began), nil
}

// take takes the lock, and returns a time before it was written.
func (l *lock) take() (began time.Time, err error) {
	var failed error
	mayBeEmpty, first := lockWritten, time.Now()
	for range 3 {
		began = time.Now()
		err := l.files.WriteSmall(lockName, l.text(), l.ask)
		if err == nil && failed == nil && since(began) < lockWritten {
			l.alone = l.asks == 1
			return began, nil
		} else if err == nil { // while it was empty, another run may have removed it
			break
		} else if errors.Is(err, endpoint.ErrLeft) {
			return began, fmt.Errorf("the lock (%s) cannot be written (transfer.SyncOptions.NoLock turns it off): %w",
				lockName, err)
		}
		holder, data, written, readErr := l.read()
		if readErr != nil { // it has been released, or cannot be created
			failed = l.unreadable(err, readErr)
			continue
		}
		if holder.ID == l.holder.ID {
			break // it was created, but the reply was lost
		}
		if holder.released() {
			if err := l.takeOver(data); isFaster(err) {
				failed = &LockedError{Holder: holder}
				continue
			} else if err != nil {
				return began, err
			}
			if l.keepsAll() && strings.HasPrefix(holder.ID, noRename) {
				l.tree.dst.Quirks().NoRename.Store(true)
				l.tree.root.warn(filecopy.RenamesNone)
			}
			break
		}
		locked, void, ageErr := l.examine(holder, data, written, first)
		if ageErr != nil {
			return began, ageErr
		}
		if len(data) == 0 && !void {
			if errors.Is(err, endpoint.ErrRepeated) {
				mayBeEmpty = lockRepeated
			}
			if void = locked.Age >= mayBeEmpty; !void {
				left := min(max(mayBeEmpty-locked.Age, time.Second), lockWritten)
				if err := pace.Sleep(l.tree.ctx, left); err != nil {
					return began, err
				}
				continue // it has been written by now, or is void
			}
		}
		if !void {
			return began, locked
		}
		failed = locked
		if err := l.takeAway(data); err != nil && !isFaster(err) {
			return began, fmt.Errorf("%w; this one cannot be taken over: %w", locked, err)
		}
	}
	holder, _, _, err := l.read()
	switch {
	case err == nil && holder.ID == l.holder.ID:
		return began, nil
	case failed != nil && (err != nil || holder.released()):
		return began, failed
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return began, err
	}
	return began, &LockedError{Holder: holder}
}

// examine tells the age of another run's lock, and whether it keeps nobody out any more. A host
// that tells no times shows neither when it was written nor its own clock: then what the holder
// says counts, and for a lock that names none how long it has been seen since first.
func (l *lock) examine(holder Holder, data []byte, written, first time.Time) (locked *LockedError,
	void bool, err error) {
	locked = &LockedError{Holder: holder, Age: since(first)}
	if !written.IsZero() {
		now, err := l.now()
		if err != nil {
			return nil, false, err
		}
		locked.Age = now.Sub(written).Abs()
	} else if !holder.Renewed.IsZero() {
		locked.Age = time.Since(holder.Renewed).Abs()
	}
	void = holder.ended() || l.holder.Owner != "" && holder.Owner == l.holder.Owner
	if void || locked.Age < lockStale || !written.IsZero() {
		return locked, void || locked.Age >= lockStale, nil
	}
	// the holder's clock may be wrong, but as long as it runs it renews the lock
	l.tree.root.warn(fmt.Sprintf("the host tells no times: waiting for %v to "+
		"see whether another sync still renews the lock", 2*lockRenewed))
	if err := pace.Sleep(l.tree.ctx, 2*lockRenewed); err != nil {
		return nil, false, err
	}
	_, now, _, err := l.read()
	void = bytes.Equal(now, data) || errors.Is(err, fs.ErrNotExist)
	return locked, void, endpoint.IgnoreMissing(err)
}

// isFaster reports whether an error means that another run has taken over the lock just before.
func isFaster(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || err == errLockGone || err == errLockLost
}

// unreadable explains that the lock could be neither created nor read.
func (l *lock) unreadable(err, readErr error) error {
	switch {
	case private.Untold(readErr):
		return fmt.Errorf("no lock file can be created in the target, and the host does not say whether there is one: remove %s if no other sync is running (transfer.SyncOptions.NoLock turns it off): %w", lockName, readErr)
	case !errors.Is(readErr, fs.ErrNotExist):
		err = readErr // it describes the entry in its place
	}
	return fmt.Errorf("no lock file can be created in the target (transfer.SyncOptions.NoLock turns it off): %w", err)
}

// begin starts renewing the lock, which is not dated before written. From now on no request for the
// target is repeated unless the lock is held.
func (l *lock) begin(written time.Time) *lock {
	l.renewing = make(chan struct{}, 1)
	l.shown.Store(&written)
	l.tree.into.Guard(l.check)
	l.stop = pace.Every(lockRenewed, func() { l.renew() })
	if !l.alone {
		l.look()
	}
	return l
}

// ask asks what may be asked while the lock is being written.
func (l *lock) ask() {
	if l.asks++; l.asks == 1 {
		l.look()
		l.made()
	}
}

// look starts the look-up for foldsCase.
func (l *lock) look() {
	answer := make(chan error, 1)
	go func() {
		_, err := l.files.Lstat(strings.ToUpper(lockName))
		answer <- err
	}()
	answered := sync.OnceValue(func() error { return <-answer })
	l.foldsCase = sync.OnceValue(func() bool { return answered() == nil }) // asked for each entry
	l.knowsCase = func() bool { return l.foldsCase() || errors.Is(answered(), fs.ErrNotExist) }
}

func (l *lock) text() []byte {
	l.holder.Renewed = time.Now().UTC().Truncate(time.Second) // always of the same length
	data, _ := json.Marshal(l.holder)                         // cannot fail
	for len(data) < l.width-1 {
		data = append(data, ' ')
	}
	return append(data, '\n')
}

// read reads the lock. written is zero if the target does not tell.
func (l *lock) read() (holder Holder, data []byte, written time.Time, err error) {
	data, was, err := l.files.ReadSmall(lockName, longestLock)
	json.Unmarshal(data, &holder) // a file just being written names no holder
	if was.HasTimes && was.Mtime.Unix() != 0 {
		written = was.Mtime
	}
	return holder, data, written, err
}

// now returns the time on the target's clock.
func (l *lock) now() (time.Time, error) {
	name := localfs.TempName(lockName)
	// Nobody else knows the name, so a first request made it whose answer was lost.
	err := l.files.WriteSmall(name, nil, endpoint.Create)
	if err != nil && !errors.Is(err, endpoint.ErrRepeated) {
		return time.Time{}, err
	}
	defer l.files.Remove(name, false)
	_, is, err := l.files.ReadSmall(name, longestLock)
	return is.Mtime, err
}

// takeAway removes a stale lock. Another run may have done so already and hold the lock by now, so
// it is first moved aside, and put back unless its contents are seen to be the same: the error is
// errLockLost then, or says that they could not be read.
func (l *lock) takeAway(void []byte) error {
	aside := localfs.TempName(lockName)
	err := l.files.Rename(lockName, aside)
	if endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist) {
		return l.takeOver(void)
	} else if err != nil {
		return err
	}
	data, _, err := l.files.ReadSmall(aside, longestLock)
	if err == nil && !bytes.Equal(data, void) {
		err = errLockLost
	}
	if err == nil || l.files.Rename(aside, lockName) != nil { // otherwise there is a newer lock
		l.files.Remove(aside, false)
	}
	return err
}

// takeOver overwrites a stale lock on a host that neither removes nor renames it. If several runs
// do so, the last one gets it: each waits a while before it reads it again, and a slower run is
// noticed when the lock is renewed.
func (l *lock) takeOver(void []byte) error {
	l.width = len(void)
	if err := l.overwrite(void); err != nil {
		return err
	}
	return pace.Sleep(l.tree.ctx, lockRepeated)
}

// overwrite overwrites the lock after a look at it: unless it is this run's, or has the contents
// void, another run has it by now. If the connection was lost, or time has passed since the look,
// it looks again.
func (l *lock) overwrite(void []byte) (err error) {
	for range 3 {
		looked := time.Now()
		switch holder, data, _, err := l.read(); {
		case errors.Is(err, fs.ErrNotExist):
			return errLockGone
		case err != nil: // it may be a link, which would be followed
			return err
		case void != nil && bytes.Equal(data, void):
		case holder.ID == "":
			return errors.New("it is empty")
		case holder.ID != l.holder.ID:
			return errLockLost
		}
		if since(looked) > lockStale/2 {
			err = errSlow
			continue
		}
		began := time.Now() // the lock is not dated before
		if err = l.once.WriteSmall(lockName, l.text(), nil); err == nil {
			l.shown.Store(&began)
		}
		if !errors.Is(err, endpoint.ErrRepeated) {
			break
		}
	}
	return err
}

// A run that cannot remove its lock releases it by an ID that consists of noHolder, or of noRename
// if the host does not rename files either: the next run need not find that out by more files that
// stay.
const (
	noHolder = "-"
	noRename = "="
)

func (h *Holder) released() bool {
	return h.ID != "" && strings.Trim(h.ID, noHolder+noRename) == ""
}

// removesNothing reports whether the target is known to remove no file.
func removesNothing(t *tree) bool {
	return t.dst.Conn() != nil && t.dst.Quirks().NoRemove.Load()
}

// keepsAll records that the host removes no file, and reports whether that is new.
func (l *lock) keepsAll() bool {
	return l.tree.dst.Conn() != nil && !l.tree.dst.Quirks().NoRemove.Swap(true)
}

// check returns an error unless the lock is held: a process that was stopped, or a machine that was
// asleep, may find another run at work when it goes on. It reads the lock only if that was not
// renewed for so long that it may have been taken over. A nil lock is always held.
func (l *lock) check() error {
	if l == nil || !l.overdue() {
		return nil
	}
	if err := l.renew(); l.overdue() {
		if err == nil {
			err = errSlow
		}
		return cmp.Or(context.Cause(l.tree.ctx), fmt.Errorf("%w: %w", errLockOld, err))
	}
	return nil
}

// overdue reports whether others may take over the lock soon.
func (l *lock) overdue() bool {
	return since(*l.shown.Load()) > lockStale/2
}

// since returns the time since then. Both the monotonic and the wall clock count: one may stand
// still while the machine sleeps.
func since(then time.Time) time.Duration {
	return max(time.Since(then), time.Now().Round(0).Sub(then.Round(0)))
}

// renew shows that this run is still alive.
func (l *lock) renew() error {
	before := l.shown.Load()
	l.renewing <- struct{}{}
	defer func() { <-l.renewing }()
	if l.shown.Load() != before { // another goroutine has just done it
		return nil
	}
	err := l.overwrite(nil)
	if err == errLockGone || err == errLockLost {
		l.tree.failFirst(err)
		l.tree.cancel(err)
	}
	return err
}

// held reads the lock, and reports whether it is this run's: it may be another run's by now, or a
// link.
func (l *lock) held() bool {
	holder, _, _, err := l.read()
	return err == nil && holder.ID == l.holder.ID
}

// release removes the lock, and calls finish to set the attributes of the target, whose mtime that
// changes: as soon as the host sets them after removing the lock, and again if it may have done so
// before, since the connection was lost.
func (l *lock) release(finish func()) {
	finished := false
	defer func() {
		if !finished {
			finish()
		}
	}()
	l.foldsCase() // so that no request is in flight
	l.stop()
	l.tree.into.Guard((*lock)(nil).check)
	cause := context.Cause(l.tree.ctx)
	if cause == errLockLost || cause == errLockGone {
		return
	}
	remove := func() error { return l.once.Remove(lockName, false) }
	var err error
	for try := range 3 {
		// Another run may have it if this one was away for long, or has removed it and not heard of it.
		if (try > 0 || l.overdue()) && !l.held() {
			return
		}
		wait := remove
		if try == 0 && l.tree.root.info.Perm()&0o200 != 0 { // or another try might be refused
			if removed, sent := endpoint.StartRemove(l.once, lockName); sent {
				finish()
				wait, finished = removed, true
			}
		}
		if err = wait(); err == nil || endpoint.Refused(err) {
			break
		}
		finished = false
	}
	if err == nil {
		l.tree.dst.Quirks().NoRemove.Store(false) // it was refused for a while
	}
	if !endpoint.Refused(err) || errors.Is(err, fs.ErrNotExist) {
		return
	}
	holder, was, _, err := l.read()
	if err != nil || holder.ID != l.holder.ID {
		return
	}
	how := noHolder
	if l.tree.dst.Quirks().NoRename.Load() {
		how = noRename
	}
	l.holder.ID = strings.Repeat(how, len(l.holder.ID))
	if l.overwrite(was) == nil && l.keepsAll() {
		t := l.tree
		t.root.warn("the host does not remove files: " + lockName +
			" stays, and keeps nobody out")
	}
}
