package status

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/server"
)

const (
	// mostFollowed is how many open files a node follows. It reports mostShown of them, and as many
	// logins.
	mostFollowed = 10_000
	mostShown    = 100

	// mostFailures is how many failures are remembered.
	mostFailures = 50

	// longestPath and longestText limit the stored length of strings that clients send.
	longestPath = 1024
	longestText = 256
)

// A Transfer is a file that is being read or written.
type Transfer struct {
	User   string    `json:"user"`
	Remote string    `json:"remote"`
	Path   string    `json:"path"`
	Upload bool      `json:"upload"`
	Bytes  int64     `json:"bytes"` // so far
	Rate   float64   `json:"bytes_per_second"`
	Since  time.Time `json:"since"`
}

// A Failure is a request that was refused, or that failed.
type Failure struct {
	Time   time.Time `json:"time"`
	Kind   string    `json:"kind"` // as in the log
	User   string    `json:"user,omitempty"`
	Remote string    `json:"remote,omitempty"`
	Path   string    `json:"path,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// failures are the kinds of events that are failures.
var failures = []server.EventKind{server.LoginFailed, server.LoginRefused, server.AddressBanned,
	server.UserBanned, server.SessionRefused, server.SessionFailed, server.CommandRefused,
	server.RequestDenied, server.FileAbandoned, server.FileFailed, server.CopyFailed}

// A Tracker follows events of this node: the files in progress, their rates, and the failures. It
// is safe for concurrent use.
type Tracker struct {
	mu     sync.Mutex
	open   map[*server.Transfer]*followed
	ended  [2]int64 // bytes read and written of files that are closed
	before [2]int64 // in all, at the last look
	looked time.Time
	rate   [2]float64
	failed []Failure // the latest is the last
}

type followed struct {
	Transfer
	before int64 // bytes at the last look
}

// NewTracker returns a tracker.
func NewTracker() *Tracker { return &Tracker{open: map[*server.Transfer]*followed{}} }

// Event follows an event.
func (t *Tracker) Event(e server.Event) {
	if e.Check {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Kind {
	case server.FileOpened:
		if len(t.open) < mostFollowed && e.Transfer != nil {
			t.open[e.Transfer] = &followed{Transfer: Transfer{User: cut(e.User, longestText),
				Remote: e.Remote, Path: cut(e.Path, longestPath), Upload: e.Upload, Since: e.Time}}
		}
	case server.FileClosed, server.FileAbandoned, server.FileFailed:
		delete(t.open, e.Transfer)
		t.ended[0], t.ended[1] = t.ended[0]+e.Read, t.ended[1]+e.Written
	}
	if slices.Contains(failures, e.Kind) {
		f := Failure{Time: e.Time, Kind: string(e.Kind), User: cut(e.User, longestText),
			Remote: e.Remote, Path: cut(e.Path, longestPath)}
		if e.Err != nil {
			f.Error = cut(e.Err.Error(), longestText)
		}
		if t.failed = append(t.failed, f); len(t.failed) > mostFailures {
			t.failed = slices.Delete(t.failed, 0, 1)
		}
	}
}

func cut(s string, most int) string { return strings.Clone(s[:min(len(s), most)]) }

// look measures how fast files have moved since the last look.
func (t *Tracker) look(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := now.Sub(t.looked).Seconds()
	first := t.looked.IsZero()
	if seconds <= 0 {
		return
	}
	all := t.ended
	for moved, one := range t.open {
		read, written := moved.Moved()
		all[0], all[1] = all[0]+read, all[1]+written
		since := min(seconds, now.Sub(one.Since).Seconds())
		if one.Bytes = read + written; since > 0 {
			// The mean with the rate before: WRITEs come in bursts.
			rate := float64(one.Bytes-one.before) / since
			if one.before > 0 {
				rate = (rate + one.Rate) / 2
			}
			one.Rate, one.before = rate, one.Bytes
		}
	}
	for i := range all {
		if !first {
			t.rate[i] = max(0, float64(all[i]-t.before[i])/seconds)
		}
	}
	t.before, t.looked = all, now
}

// Rates returns how many bytes a second clients have read and written lately.
func (t *Tracker) Rates() (read, written float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rate[0], t.rate[1]
}

// Transfers returns the files in progress, the oldest first, and how many more there are.
func (t *Tracker) Transfers() (all []Transfer, more int) {
	t.mu.Lock()
	for _, one := range t.open {
		all = append(all, one.Transfer)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b Transfer) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Path, b.Path))
	})
	more = max(len(all)-mostShown, 0)
	return all[:len(all)-more], more
}

// Failures returns the latest failures, the latest first.
func (t *Tracker) Failures() []Failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.failed)
	slices.Reverse(all)
	return all
}
