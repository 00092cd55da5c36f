package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/usftp/usftp/server/internal/lograte"
	"github.com/usftp/usftp/wire"
)

// EventKind is the kind of an Event. It is also the message of the event's log line.
type EventKind string

const (
	// Of sessions. Every change passes the View, which reports it.

	FileOpened    EventKind = "file opened"    // Path, Upload, Transfer
	FileClosed    EventKind = "file closed"    // Path, Upload, Read, Written, Took, Transfer
	FileAbandoned EventKind = "file abandoned" // the same, Err: it is incomplete
	FileFailed    EventKind = "file failed"    // the same, Err: the backend could not close it
	TreeChanged   EventKind = "tree changed"   // Request, Path, To, Attrs, Err: [ErrUnsure]
	RequestDenied EventKind = "request denied" // Request, Path, To, By, Err
	BadRequest    EventKind = "bad request"    // Request, Path, To, Err: it makes no sense

	// Of sessions of the scp protocol only.

	CopyFailed   EventKind = "scp failed"        // Request, Path, Err: a file that was not copied
	ClientFailed EventKind = "the client failed" // Err: the client's message about its own files

	// Of package sshd.

	LoggedIn         EventKind = "logged in"             // Client, Method, Key
	LoginFailed      EventKind = "login failed"          // User, Tried, Check, Err
	LoginRefused     EventKind = "login refused"         // User, Tried, Err: why nobody may log in so
	AddressBanned    EventKind = "address banned"        // Took
	UserBanned       EventKind = "user banned"           // User, Took: at this address; keys are not
	SessionRefused   EventKind = "session refused"       // Err
	CommandRefused   EventKind = "a command was refused" // Command, Err
	SessionFailed    EventKind = "session failed"        // Err
	ConnectionIdle   EventKind = "idle connection closed"
	ConnectionClosed EventKind = "connection closed" // of a client that had logged in
)

// eventKinds has the level of each kind's log line, and marks the lines that a client can cause at
// no cost to itself, by requests that are refused.
var eventKinds = map[EventKind]struct {
	level   slog.Level
	limited bool
}{
	FileOpened: {level: slog.LevelDebug}, FileClosed: {},
	FileAbandoned: {level: slog.LevelWarn}, FileFailed: {level: slog.LevelWarn},
	TreeChanged: {}, RequestDenied: {limited: true}, BadRequest: {limited: true},
	CopyFailed: {slog.LevelWarn, true}, ClientFailed: {slog.LevelWarn, true},
	LoggedIn: {}, LoginFailed: {}, LoginRefused: {}, AddressBanned: {level: slog.LevelWarn},
	UserBanned:     {level: slog.LevelWarn},
	SessionRefused: {slog.LevelWarn, true}, CommandRefused: {slog.LevelWarn, true},
	SessionFailed: {level: slog.LevelWarn}, ConnectionIdle: {}, ConnectionClosed: {},
}

// An Event reports something that a client did, or was not allowed to do. Fields that its kind does
// not mention are zero. Strings are as the client sent them, and may be long.
type Event struct {
	Kind EventKind
	Time time.Time

	Remote   string   // the client's address, with its port; sshd knows it
	User     string   // who has logged in, or tried to; sshd knows it
	Client   string   // the client's SSH version line
	Method   string   // the authentication that succeeded, by its SSH name; the last of several
	Key      string   // the fingerprint of the key, or the certificate's key, that succeeded
	Tried    []string // methods of authentication that failed
	Check    bool     // the connection is a load balancer's own, to see whether the server lives
	Protocol string   // "sftp" or "scp"

	Request string      // by one of the names that Operations returns, or "scp -f" or "scp -t"
	Command string      // that a client wanted to be run
	Path    string      // absolute, without empty elements and dots
	To      string      // the other path of a rename or link
	Attrs   *wire.Attrs // the attributes set
	By      string      // denied by "policy", "quota", "limit" or "backend"

	Upload        bool          // the file was written, or opened for that
	Read, Written int64         // bytes of the file that the client read and wrote
	Took          time.Duration // since the file was opened; length of a ban or idle time
	Transfer      *Transfer     // the open file
	SHA256        string        // of the file, in hexadecimal, if it is known; see Reporter

	Err error
}

// A Reporter takes the events of one session or connection: it passes all of them to Events, and
// then writes them to Logger. The number of lines about refusals is limited, since no client may
// fill the disk by being refused; Events comes before that limit. A nil *Reporter does nothing.
type Reporter struct {
	// Events, if not nil, gets every event, from several goroutines at once. The reported action
	// waits until it returns.
	Events func(Event)

	// Gate, if not nil, is asked before changes.
	Gate Gate

	// Hashes has files hashed as they are written and read. A file gets a hash only if it passes
	// from beginning to end, in order and once, through one handle.
	Hashes bool

	// Logger, if not nil, gets a line for each event. Strings are cut at 128 bytes.
	Logger *slog.Logger

	// Protocol is set in events that have none.
	Protocol string

	refusals lograte.Limit
}

// Report reports an event, now.
func (r *Reporter) Report(e Event) {
	if r == nil {
		return
	}
	e.complete(r)
	if r.Events != nil {
		r.Events(e)
	}
	r.log(&e)
}

// complete sets what all events of a reporter have in common. Each file has one path, however the
// client has spelled it, as far as that can be said without a look at links: .. is left alone.
func (e *Event) complete(r *Reporter) {
	e.Time, e.Protocol = time.Now(), cmp.Or(e.Protocol, r.Protocol)
	e.Path = plain(e.Path)
	if e.Request != opSymlink.String() { // To is the text of a link then
		e.To = plain(e.To)
	}
}

// plain returns an absolute path without elements that are empty or a dot.
func plain(name string) string {
	odd := strings.Contains(name, "//") || strings.Contains(name, "/.") || strings.HasSuffix(name, "/")
	if !odd || !strings.HasPrefix(name, "/") {
		return name
	}
	elements := slices.DeleteFunc(strings.Split(name, "/"), func(element string) bool {
		return element == "" || element == "."
	})
	return "/" + strings.Join(elements, "/")
}

// log writes an event's line. Setting times is not logged, since every copy does it.
func (r *Reporter) log(e *Event) {
	const logged = wire.AttrPermissions | wire.AttrSize | wire.AttrUIDGID
	if r.Logger == nil || e.Attrs != nil && e.Attrs.Flags&logged == 0 {
		return
	}
	kind := eventKinds[e.Kind]
	if e.Check {
		kind.level = slog.LevelDebug
	}
	ctx := context.Background()
	if !r.Logger.Enabled(ctx, kind.level) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	if kind.limited {
		ok, omitted := r.refusals.Take()
		if !ok {
			return
		}
		if omitted > 0 {
			attrs = append(attrs, slog.Int("omitted", omitted))
		}
	}
	lograte.Cut(r.Logger).LogAttrs(ctx, kind.level, string(e.Kind), e.appendAttrs(attrs)...)
}

// end logs the number of omitted lines.
func (r *Reporter) end() {
	if omitted := r.refusals.Omitted(); omitted > 0 && r.Logger != nil {
		r.Logger.Info("more requests refused", "omitted", omitted)
	}
}

// appendAttrs appends the fields of the log line.
func (e *Event) appendAttrs(attrs []slog.Attr) []slog.Attr {
	for _, text := range [...]struct{ key, value string }{
		{"user", e.User}, {"client", e.Client}, {"method", e.Method}, {"key", e.Key},
		{"tried", strings.Join(e.Tried, ",")},
		{"request", e.Request}, {"by", e.By}, {"command", e.Command},
		{"path", e.Path}, {"to", e.To}, {"sha256", e.SHA256},
	} {
		if text.value != "" {
			attrs = append(attrs, slog.String(text.key, text.value))
		}
	}
	if e.Protocol == "scp" { // SFTP goes without saying
		attrs = append(attrs, slog.String("protocol", e.Protocol))
	}
	switch e.Kind {
	case FileClosed, FileAbandoned, FileFailed:
		transfer := "download"
		if e.Upload {
			transfer = "upload"
		}
		attrs = append(attrs, slog.String("transfer", transfer), slog.Int64("read", e.Read),
			slog.Int64("written", e.Written))
	}
	if seconds := e.Took.Round(time.Millisecond).Seconds(); e.Took > 0 {
		attrs = append(attrs, slog.Float64("seconds", seconds))
		if bytes := e.Read + e.Written; bytes > 0 && seconds > 0 {
			rate := int64(float64(bytes) / seconds)
			attrs = append(attrs, slog.Int64("bytes_per_second", rate))
		}
	}
	if a := e.Attrs; a != nil {
		if a.Has(wire.AttrPermissions) {
			mode := fmt.Sprintf("%04o", a.Permissions&0o7777)
			attrs = append(attrs, slog.String("mode", mode))
		}
		if a.Has(wire.AttrSize) {
			attrs = append(attrs, slog.Uint64("size", a.Size))
		}
		if a.Has(wire.AttrUIDGID) {
			attrs = append(attrs, slog.Any("uid", a.UID), slog.Any("gid", a.GID))
		}
	}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	return attrs
}
