package usftp

import (
	"context"
	"log/slog"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// ClientOption changes how a client works. None is needed: what the server says and what the link
// does decide.
type ClientOption func(*options)

type options struct {
	maxPacket     int
	channelWindow int
	serverVersion string
	statStrategy  StatStrategy
	errorFunc     func(error)
	readAhead     int64
	writeBehind   int64
	ahead         func(*Client)
	conn          conn.Config
}

// WithMaxPacket bounds the data that one READ or WRITE carries, in bytes. The default is what the
// server allows by limits@openssh.com, at most 255 KiB, or 32 KiB where it does not say. A server
// that gives less shrinks it by itself. Values are clamped to 512 bytes and 255 KiB.
func WithMaxPacket(bytes int) ClientOption {
	return func(o *options) { o.maxPacket = min(max(bytes, 512), wire.MaxData) }
}

// WithMaxInFlight bounds the bytes of file contents in flight over the whole client: asked for or
// sent, and not yet answered. The default is 32 MiB; how much of it is used follows from the link.
// One transfer never takes more than half of it.
func WithMaxInFlight(bytes int64) ClientOption {
	return func(o *options) { o.conn.MaxInFlight = bytes }
}

// Budget bounds the bytes of file contents that transfers of several clients have in flight
// together. See [WithBudget].
type Budget struct{ shared *conn.Shared }

// NewBudget returns a budget of so many bytes. It is for any number of clients, at any time.
func NewBudget(bytes int64) *Budget { return &Budget{conn.NewShared(bytes)} }

// InFlight returns how many bytes are in flight now.
func (b *Budget) InFlight() int64 { return b.shared.Taken() }

// WithBudget has a client's transfers draw on a budget that it shares with others, besides its own
// (see [WithMaxInFlight]). One file over one client takes at most half of it, further ones and
// further clients a part of what is left; each may have one request in flight however little that
// is. Single calls, such as Write, count in it, and are not held up.
func WithBudget(b *Budget) ClientOption {
	return func(o *options) { o.conn.Shared = b.shared }
}

// WithReadAhead bounds the bytes that sequential [File.Read] asks for ahead, for each file; they
// count in the budget of [WithMaxInFlight] until they are read. 0 turns reading ahead off, as it
// must be where every read of a file counts: mailboxes of some exchanges are gone, or paid for,
// once they were read. The default is 16 MiB.
func WithReadAhead(bytes int64) ClientOption {
	return func(o *options) { o.readAhead = max(bytes, 0) }
}

// WithWriteBehind has [File.Write] not wait for the server's answer, as long as no more than so
// many bytes of a file are in flight. Then an error comes with a later Write, with Sync or with
// Close, as described at [File.Writer]. 0, the default, has each Write wait.
func WithWriteBehind(bytes int64) ClientOption {
	return func(o *options) { o.writeBehind = max(bytes, 0) }
}

// WithStallTimeout says how long bytes of a read or write may be overdue before the connection is
// given up with a [StallError]. Other requests may take as long as they like while the transport
// answers keepalives, where it can be asked (see [WithKeepalive]). The default is 60 seconds; below
// 0 means for ever.
func WithStallTimeout(d time.Duration) ClientOption {
	return func(o *options) { o.conn.StallTimeout = d }
}

// WithErrorFunc has f called with errors that nobody waits for: with those of operations that were
// started and forgotten (see [Pending.Forget]), and once with the reason when the connection ends;
// after Close that is [ErrClosed]. Calls of f come one at a time, on a goroutine that is none of
// the connection's.
func WithErrorFunc(f func(error)) ClientOption {
	return func(o *options) { o.errorFunc = f }
}

// WithAhead has start called before the server has answered INIT, with a client whose requests go
// out right behind it: what a program knows that it will ask first is answered a round trip
// earlier. start must not block, so it has a goroutine of its own wait for answers. Such a client
// does not know the server's extensions yet, and may do no more than open files and look at paths.
// Only for servers that are known to work in order (see [WithServerVersion]); with others start is
// not called, since a server may take INIT by itself first.
func WithAhead(start func(*Client)) ClientOption {
	return func(o *options) { o.ahead = start }
}

// WithLogger has the client tell a logger what it notices: mostly where a server does not conform
// and what was done about it.
func WithLogger(l *slog.Logger) ClientOption {
	return func(o *options) { o.conn.Logger = l }
}

// WithKeepalive tells the client how to ask the transport under its stream whether the peer lives.
// [NewClient] knows by itself. ask returns nil when the peer has answered in any way before ctx was
// done.
func WithKeepalive(ask func(ctx context.Context) error) ClientOption {
	return func(o *options) { o.conn.Keepalive = ask }
}

// WithServerVersion tells the client the SSH server's version line ("SSH-2.0-OpenSSH_9.2p1"), by
// which it knows servers that work strictly in order. [NewClient] knows by itself.
func WithServerVersion(version string) ClientOption {
	return func(o *options) { o.serverVersion = version }
}

// WithChannelWindow tells the client how many bytes the stream carries in a round trip, where the
// transport bounds it as SSH channels do; transfers then start with as much in flight. [NewClient]
// knows by itself. The default is 0: not bound.
func WithChannelWindow(bytes int) ClientOption {
	return func(o *options) { o.channelWindow = bytes }
}

// WithStatStrategy says what to do where a file's size is needed and was not asked for. The default
// is [StatLazy].
func WithStatStrategy(strategy StatStrategy) ClientOption {
	return func(o *options) { o.statStrategy = strategy }
}

// StatStrategy says what to do where a file's size is needed and was not asked for: by Seek from
// the end.
type StatStrategy int

const (
	// StatLazy, the default, takes the size that is cached and asks where there is none, and always
	// on files that are open for writing.
	StatLazy StatStrategy = iota
	// StatAlways asks every time.
	StatAlways
	// StatNever takes the size that is cached, however old, and fails where there is none.
	StatNever
)
