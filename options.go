package usftp

import (
	"context"
	"log/slog"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// ClientOption configures a client. The defaults adapt to the server and the link.
type ClientOption func(*options)

type options struct {
	maxPacket     int
	channelWindow int
	serverVersion string
	statStrategy  StatStrategy
	errorFunc     func(error)
	readAhead     int64
	writeBehind   int64
	firstRequest  func(*Client)
	host          string // for messages
	names         NameCoding
	conn          conn.Config
}

// WithMaxPacket limits the data in one READ or WRITE, in bytes. The default is the server's limit
// (limits@openssh.com), at most 255 KiB, or 32 KiB if it states none. If a server returns less, the
// size shrinks automatically. Values are clamped to the range from 512 bytes to 255 KiB.
func WithMaxPacket(bytes int) ClientOption {
	return func(o *options) { o.maxPacket = min(max(bytes, 512), wire.MaxData) }
}

// WithMaxInFlight limits the bytes of file contents in flight, requested or sent and not yet
// answered, over the whole client. The default, also for 0, is 32 MiB; how much of it is used
// depends on the link. One transfer never takes more than half of it.
func WithMaxInFlight(bytes int64) ClientOption {
	return func(o *options) { o.conn.MaxInFlight = bytes }
}

// Budget limits the bytes of file contents that several clients have in flight together. See
// [WithBudget].
type Budget struct{ shared *conn.Shared }

// NewBudget returns a budget of the given number of bytes, for any number of clients.
func NewBudget(bytes int64) *Budget { return &Budget{conn.NewShared(bytes)} }

// InFlight returns the number of bytes in flight now.
func (b *Budget) InFlight() int64 { return b.shared.Taken() }

// WithBudget makes a client's transfers draw on a budget shared with other clients, besides its own
// (see [WithMaxInFlight]). A file takes at most half of the bytes that the others leave, but may
// always have one request in flight. Single calls, such as Write, count but do not wait. A nil
// Budget, the default, shares nothing.
func WithBudget(b *Budget) ClientOption {
	return func(o *options) {
		o.conn.Shared = nil
		if b != nil {
			o.conn.Shared = b.shared
		}
	}
}

// WithReadAhead limits the bytes that sequential [File.Read] calls request ahead, for each file.
// They count against [WithMaxInFlight] until they are read. The default is 16 MiB. 0 turns reading
// ahead off, which is needed if every read of a file counts: some mailbox servers delete data that
// was read, or charge for it.
func WithReadAhead(bytes int64) ClientOption {
	return func(o *options) { o.readAhead = max(bytes, 0) }
}

// WithWriteBehind makes [File.Write] return without waiting for the server, as long as at most this
// many bytes of a file are in flight. An error then comes with a later Write, Sync or Close, as
// described at [File.Writer]. With 0, the default, each Write waits.
func WithWriteBehind(bytes int64) ClientOption {
	return func(o *options) { o.writeBehind = max(bytes, 0) }
}

// WithStallTimeout sets how long bytes of a read or write may be overdue before the connection is
// given up with a [StallError]. Other requests may take longer while the transport answers
// keepalives, if it can be asked (see [WithKeepalive]): the first is sent after a quarter of the
// timeout without a sign of life, and must be answered within the rest of it. What opens or changes
// something may take any time then, and what only looks something up ten times the timeout, or
// sixty for a directory's list and for a question about an open file; that time begins when
// everything asked before has been answered, and no data is due meanwhile. The default, also for 0,
// is 60 seconds; a negative value means forever.
func WithStallTimeout(d time.Duration) ClientOption {
	return func(o *options) { o.conn.StallTimeout = d }
}

// WithErrorFunc sets a function for errors that nobody waits for: errors of operations that were
// started and forgotten (see [Pending.Forget]) and, once, the reason why the connection ended;
// after Close that is [ErrClosed]. Calls of f come one at a time and not on the connection's
// goroutines.
func WithErrorFunc(f func(error)) ClientOption {
	return func(o *options) { o.errorFunc = f }
}

// WithLogger sets a logger, mostly for a server's deviations from the protocol and the client's way
// around them.
func WithLogger(l *slog.Logger) ClientOption {
	return func(o *options) { o.conn.Logger = l }
}

// WithKeepalive sets how to ask the transport whether the peer is alive. ask returns nil if the
// peer answered in any way before ctx was done. [NewClient] sets it automatically.
func WithKeepalive(ask func(ctx context.Context) error) ClientOption {
	return func(o *options) { o.conn.Keepalive = ask }
}

// WithServerVersion sets the SSH server's version line ("SSH-2.0-OpenSSH_9.2p1"), by which the
// client knows servers that work in order. [NewClient] sets it automatically.
func WithServerVersion(version string) ClientOption {
	return func(o *options) { o.serverVersion = version }
}

// WithChannelWindow sets how many bytes the stream carries in a round trip if the transport limits
// that, as SSH channels do; transfers start with that much in flight. The default is 0: no limit.
// [NewClient] sets it automatically.
func WithChannelWindow(bytes int) ClientOption {
	return func(o *options) { o.channelWindow = bytes }
}

// WithStatStrategy sets where [File.Seek] gets a file's size. The default is [StatLazy].
func WithStatStrategy(strategy StatStrategy) ClientOption {
	return func(o *options) { o.statStrategy = strategy }
}

// StatStrategy says where [File.Seek] gets a file's size when it counts from the end.
type StatStrategy int

const (
	// StatLazy, the default, uses the cached size. It asks if there is none, and always if the file
	// is open for writing.
	StatLazy StatStrategy = iota
	// StatAlways asks every time.
	StatAlways
	// StatNever uses the cached size, however old, and fails if there is none.
	StatNever
)
