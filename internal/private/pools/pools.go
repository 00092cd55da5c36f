// Package pools gives package transfer abilities of package pool that other programs have no use
// for: the sessions that share a large file, the number of files in progress, and the quirks of a
// host. Package pool fills in its variables.
package pools

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/quirks"
)

var (
	OfConn func(conn any) Conn // the further methods of a *pool.Conn
	OfPool func(pool any) Pool // the further methods of a *pool.Pool
	OfHost func(host any) Host // the further methods of a *pool.Host
)

// MostShared limits how often an operation starts over because the host gave one handle to several
// open files (see [usftp.ErrSharedHandle]). Once is enough, unless it meets another connection each
// time that has not found out yet.
const MostShared = 8

// Conn has further methods of a pool.Conn.
type Conn interface {
	// Renews reports whether a lost connection is replaced.
	Renews() bool
	// AcquireSlot waits until a file may start, or everything ends.
	AcquireSlot(large bool, p *Progress) (leave func())
	// Lose counts a connection that was lost during an attempt at a file that has come so far. It
	// reports whether the file alone has failed, since it seems to be what ends the connections.
	Lose(p *Progress, reached int64) (failed bool)
	// Follow counts a file's progress until stop is called. position returns the contiguous part.
	Follow(p *Progress, position func() int64) (stop func())
	// NoteRate records the rate, in bytes per second, at which a large file was copied.
	NoteRate(rate float64)
	// Ended reports whether the connection is lost for good.
	Ended() bool
	// Rate returns the rate of recent large files in bytes per second, or 0 if there were none.
	Rate() float64
}

// Progress records how far a file has come over all connections, in bytes from its beginning.
type Progress struct {
	Reached int64
	Losses  Losses
}

// Losses are the connections that were lost in a row during attempts at a file that has come no
// farther since the first of them.
type Losses struct {
	All, Alone int32 // Alone counts those that nothing else was in progress over
	Suspected  bool  // the file must be tried alone
	Idle       bool  // nothing else has got on meanwhile
	WasAlone   bool  // the last attempt
	Reached    int64 // how far the file has come
	Arrived    int64 // what everything had done when the first attempt after the first loss began
}

// A DeadlyError reports a file that connections ended with whenever it was tried. Others may not.
type DeadlyError struct{ Err error }

func (e *DeadlyError) Error() string {
	return fmt.Sprintf("%v (as each time that this was tried, also when nothing else was in progress; "+
		"gave up on it)", e.Err)
}

func (e *DeadlyError) Unwrap() error { return e.Err }

// Pool has further methods of a pool.Pool.
type Pool interface {
	// Want is pool.Pool's.
	Want(connections, sessions int)
	// Size returns the maximum number of sessions, including the first.
	Size() int
	// Expect opens connections early if a file of this size is worth it at this round trip: they
	// log in while the first connection still does.
	Expect(size int64, trip time.Duration)
	// Stable reports whether nothing is being opened, how many connections there are, and how many
	// there can be.
	Stable() (stable bool, have, most int)
	// Sessions returns the live sessions besides the first, and a channel that is closed when they
	// may have changed.
	Sessions() (sessions []Session, changed <-chan struct{})
	// Use keeps the session's connection open until release is called.
	Use(s Session) (release func())
	// IsFirst reports whether a session is on the first connection.
	IsFirst(s Session) bool
	// Drop closes the connections of sessions that turned out to add nothing, unless they are in
	// use, and allows no more connections than remain.
	Drop(useless []Session)
}

// A Session is an SFTP session of a pool. The same session is always the same value.
type Session interface {
	// Client returns the session's client.
	Client() *usftp.Client
	// Shares reports whether two sessions share a connection.
	Shares(other Session) bool
}

// Host has further methods of a pool.Host.
type Host interface {
	// Quirks returns the host's quirks. It must not be called if pool.Host.Quirks is nil.
	Quirks() *quirks.Quirks
	// LoginTrip returns the round trip measured during the login if the first request's answer was
	// used, otherwise 0.
	LoginTrip() time.Duration
	// OpenRead opens a file for reading together with its attributes, and returns how long the
	// round trip took.
	OpenRead(ctx context.Context, path string) (f *usftp.File, trip time.Duration, err error)
	// Stat describes the file that a path refers to, following symbolic links, as far as the host
	// tells (see private.Client.Find).
	Stat(ctx context.Context, path string) (fs.FileInfo, error)
	// Look describes in one round trip the file that a path refers to, and reports whether the path
	// itself is a symbolic link, and how long that took.
	Look(ctx context.Context, path string) (info fs.FileInfo, link bool, trip time.Duration,
		err error)
}
