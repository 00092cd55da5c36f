// Package quirks records the behaviour that a host has shown since the login.
package quirks

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
)

// Quirks is the behaviour that a host has shown since the login, on any connection.
type Quirks struct {
	Separate    atomic.Bool // one handle does not see data written by another
	Touches     atomic.Bool // a file being read shows the current time as its mtime
	NoTemporary atomic.Bool // temporary names are refused where the target's own name is not
	NoRename    atomic.Bool // files cannot be renamed
	Renaming    sync.Mutex  // held while NoRename is found out
	NoRemove    atomic.Bool // files cannot be removed
	NoAppend    atomic.Bool // no existing file is opened to be appended to, but to be written
	Reported    atomic.Bool // the user has been told of NoTemporary or NoRename
	WholeFiles  atomic.Bool // existing files are written only if they are emptied first
	NoFsetstat  atomic.Bool // attributes are set by path only
	NoTimes     atomic.Bool // times cannot be set
	NoModes     atomic.Bool // permissions cannot be set
	NoDirTimes  atomic.Bool // times of directories cannot be set
	NoDirModes  atomic.Bool
	ToldDirs    atomic.Bool  // the user has been told of NoDirTimes or NoDirModes
	AskedNames  atomic.Bool  // whether names that are not UTF-8 are changed
	ToldLinks   atomic.Bool  // the user has been told that relative links become absolute
	Proved      atomic.Bool  // a file has been looked at after its attributes were set
	NotWritten  atomic.Int64 // WRITEs that it has refused, or not carried out
	Clock       Clock
}

// Settable removes from set, for a directory or a file, the attributes that the host is known to
// refuse.
func (q *Quirks) Settable(set *usftp.NewAttrs, dir bool) {
	if q.NoTimes.Load() || dir && q.NoDirTimes.Load() {
		set.SetTimes, set.Atime, set.Mtime = false, time.Time{}, time.Time{}
	}
	if q.NoModes.Load() || dir && q.NoDirModes.Load() {
		set.SetMode, set.Mode = false, 0
	}
}

// A Clock measures how far a host's clock is behind ours. SFTP does not tell the time, but Linux
// stamps a file in /proc when it is first looked up, and each SFTP session is a process of its own.
type Clock struct {
	mu sync.Mutex
	// closed when the host has answered, or the connection was lost; nil before
	asked  chan struct{}
	behind time.Duration
	known  bool
}

// ownClock is a file of the server's process that nobody else looks at.
const ownClock = "/proc/self/mountstats"

// Ask asks the host, without waiting for the answer, unless it has been asked already. A stale
// stamp makes the clock look further behind than it is, which is safe.
func (k *Clock) Ask(c *usftp.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.asked != nil {
		return
	}
	asked := make(chan struct{})
	k.asked = asked
	go func() {
		defer close(asked)
		info, err := c.Lstat(ownClock)
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err == nil && info.Sys().(*usftp.FileStat).HasTimes():
			k.behind, k.known = time.Since(info.ModTime()), true
		case err != nil && lost(c):
			k.asked = nil // ask again on the next connection
		}
	}()
}

// Behind waits for the answer. known is false if the host was not asked, was lost, or has no /proc.
// If ctx ends before the answer arrives, the error is its cause.
func (k *Clock) Behind(ctx context.Context) (behind time.Duration, known bool, err error) {
	k.mu.Lock()
	asked := k.asked
	k.mu.Unlock()
	if asked == nil {
		return 0, false, nil
	}
	select {
	case <-asked:
	default:
		select {
		case <-asked:
		case <-ctx.Done():
			return 0, false, context.Cause(ctx)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.behind, k.known, nil
}

func lost(c *usftp.Client) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}
