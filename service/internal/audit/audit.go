// Package audit makes the audit trail of events, and writes it for people and programs.
package audit

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/wire"
)

const (
	// longestPath and longestText limit the stored length of strings that clients send.
	longestPath = 4096
	longestText = 256
)

// LeftOut is the kind of a record that stands for records that were not made, because a user, or
// strangers together, caused too many. Its Count says how many.
const LeftOut = "records left out"

// A Trail records events. It is safe for concurrent use.
type Trail struct {
	record func(store.Record)

	mu        sync.Mutex
	strangers bucket
	users     map[string]*bucket
}

// New returns a trail that passes its records to a function.
func New(record func(store.Record)) *Trail {
	return &Trail{record: record, users: map[string]*bucket{}}
}

// Event records an event, up to a limit for each user: no client may fill the store.
func (t *Trail) Event(e server.Event) {
	if e.Check || e.Kind == server.FileOpened || onlyTimes(e.Attrs) {
		return
	}
	ok, omitted := t.take(e)
	if omitted > 0 {
		left := store.Record{Time: e.Time, Kind: LeftOut, Count: omitted}
		if !byStranger(e) {
			left.User = text(e.User)
		}
		t.record(left)
	}
	if ok {
		t.record(recordOf(e))
	}
}

// onlyTimes reports whether a change sets nothing but times, which every copy does.
func onlyTimes(a *wire.Attrs) bool {
	const told = wire.AttrPermissions | wire.AttrSize | wire.AttrUIDGID
	return a != nil && a.Flags&told == 0
}

// Admin records an operator's action on the service.
func (t *Trail) Admin(remote, details, user string, err error) {
	r := store.Record{Time: time.Now(), Kind: Administered, Remote: remote, User: text(user),
		Details: text(details)}
	if err != nil {
		r.Error = text(err.Error())
	}
	t.record(r)
}

// Administered is the kind of Admin's records.
const Administered = "administered"

// byStranger reports whether an event comes from a client that has not logged in, whatever name it
// gave.
func byStranger(e server.Event) bool {
	return e.Kind == server.LoginFailed || e.Kind == server.LoginRefused ||
		e.Kind == server.UserBanned || e.User == ""
}

// mostUsers is how many users have limits of their own.
const mostUsers = 10_000

// take reports whether an event may be recorded, and how many before it were left out.
func (t *Trail) take(e server.Event) (ok bool, omitted int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if byStranger(e) {
		return t.strangers.take(e.Time, 1000, 1)
	}
	b := t.users[e.User]
	if b == nil {
		if len(t.users) >= mostUsers {
			for _, other := range t.users {
				t.strangers.omitted += other.omitted // reported together with theirs
			}
			clear(t.users)
		}
		b = &bucket{}
		t.users[e.User] = b
	}
	return b.take(e.Time, 100_000, 50)
}

// A bucket is a token bucket: it allows a burst of records, and then so many a second.
type bucket struct {
	used    float64
	last    time.Time
	omitted int64
}

func (b *bucket) take(now time.Time, burst, perSecond float64) (ok bool, omitted int64) {
	if past := now.Sub(b.last); past > 0 {
		b.used, b.last = max(0, b.used-past.Seconds()*perSecond), now
	}
	if b.used+1 > burst {
		b.omitted++
		return false, 0
	}
	b.used++
	omitted, b.omitted = b.omitted, 0
	return true, omitted
}

func recordOf(e server.Event) store.Record {
	r := store.Record{Time: e.Time, Kind: string(e.Kind), User: text(e.User), Remote: e.Remote,
		Client: text(e.Client), Method: e.Method, Key: e.Key, Request: e.Request, Upload: e.Upload,
		Read: e.Read, Written: e.Written, SHA256: e.SHA256, By: e.By,
		Seconds: e.Took.Round(time.Millisecond).Seconds()}
	if e.Path != "" || e.Kind == server.FileClosed {
		r.Protocol = e.Protocol
	}
	r.Path, r.PathBytes = name(e.Path)
	r.To, r.ToBytes = name(e.To)
	var details []string
	if len(e.Tried) > 0 {
		details = append(details, "tried "+strings.Join(e.Tried, ","))
	}
	if e.Command != "" {
		details = append(details, "command "+e.Command)
	}
	if a := e.Attrs; a != nil {
		if a.Has(wire.AttrPermissions) {
			details = append(details, fmt.Sprintf("mode %04o", a.Permissions&0o7777))
		}
		if a.Has(wire.AttrSize) {
			details = append(details, fmt.Sprintf("size %d", a.Size))
		}
		if a.Has(wire.AttrUIDGID) {
			details = append(details, fmt.Sprintf("uid %d gid %d", a.UID, a.GID))
		}
	}
	r.Details = text(strings.Join(details, ", "))
	if e.Err != nil {
		r.Error = text(e.Err.Error())
	}
	return r
}

// name returns a path, cut if it is very long, and its bytes if they are not UTF-8.
func name(path string) (string, []byte) {
	if path = path[:min(len(path), longestPath)]; utf8.ValidString(path) {
		return path, nil
	}
	return path, []byte(path)
}

func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), longestText)], "\uFFFD") }
