package usftp

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/usftp/usftp/internal/buffer"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/internal/private/hook"
	"github.com/usftp/usftp/wire"
)

// Small files that several goroutines put or get at the same time share requests, where the server
// offers put-files@usftp and get-files@usftp (docs/small-files.md).

const (
	// bundleSize limits the length of a request with contents, or of an answer. It holds a handful
	// of the files that profit, and memory is lent in this size.
	bundleSize = buffer.Medium

	// fewBundles is the number of requests in flight from which on files wait to share the next
	// one. Then it is sent when it is full, or when one of those in flight is answered: files wait
	// no longer than a round trip, and not at all while there are few.
	fewBundles = 2
)

// A bundle is one request for several files.
type bundle struct {
	session *session
	of      *bundles
	above   string // the view's directory, see session.beneath
	top     int    // how long that is for the server; -1 if links are followed
	packet  []byte
	block   *buffer.Block // holds packet, if that has contents
	bytes   int           // of the files' contents and other fields
	files   []*bundled
	call    *conn.Call
	left    atomic.Int32 // files whose answer is still needed, and one for Complete
}

// bundled is one file of a bundle.
type bundled struct {
	bundle *bundle
	done   chan struct{} // is closed when the following are set
	got    wire.GotFile  // lies in the call
	err    error
}

// bundles are the requests of one kind.
type bundles struct {
	extension string

	mu     sync.Mutex
	next   *bundle // takes further files; nil if there is none
	flying int
}

// add adds a file, beneath the view's directory or not, to a request. size is its size there or in
// the answer, and appended appends it.
func (b *bundles) add(s *session, name string, size int,
	appended func(packet []byte) []byte) (*bundled, error) {
	above, top := "", -1
	if s.isBeneath(name) {
		encoded, err := s.encodePath(*s.above)
		if err != nil {
			return nil, err
		}
		above, top = *s.above, len(encoded)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.next; n != nil && (n.above != above || n.top != top ||
		n.bytes+size > bundleSize-wire.LengthSize) {
		b.send()
	}
	if b.next == nil {
		n := &bundle{session: s, of: b, above: above, top: top, bytes: 128 + len(above)}
		n.left.Store(1)
		if b.extension == wire.ExtPutFiles {
			n.block = s.conn.Pool().Get(bundleSize)
			n.packet = n.block.Bytes()[:0]
		}
		n.packet = wire.BeginFiles(n.packet, b.extension, top)
		b.next = n
	}
	n, f := b.next, &bundled{bundle: b.next, done: make(chan struct{})}
	n.packet = appended(n.packet)
	n.left.Add(1)
	n.bytes += size
	if n.files = append(n.files, f); len(n.files) == wire.MostFiles || b.flying < fewBundles {
		b.send()
	}
	return f, nil
}

// send sends the request being filled. The caller holds the lock.
func (b *bundles) send() {
	n := b.next
	b.next = nil
	b.flying++
	n.call = n.session.request(wire.TypeExtendedReply)
	n.call.Request, n.call.Payload = wire.FinishFiles(n.packet), n.block
	if n.block == nil { // a put may take as long as OPEN, CLOSE and RENAME may
		n.call.Bytes = n.bytes
	}
	n.call.Done = n
	if ok, err := n.session.conn.TryStart(n.call, true); !ok {
		b.flying--
		n.block.Release()
		n.call.Payload = nil
		n.answered(cmp.Or(err, errTooMany))
	}
}

// Complete implements [conn.Completer].
func (n *bundle) Complete(call *conn.Call) {
	n.of.mu.Lock()
	if n.of.flying--; n.of.next != nil && n.of.flying < fewBundles {
		n.of.send()
	}
	n.of.mu.Unlock()
	n.answered(cmp.Or(call.Err, replyError(call)))
}

// answered passes the answer on to the files, each of which may be gone.
func (n *bundle) answered(err error) {
	rest := n.call.Body
	for _, f := range n.files {
		if err == nil && n.of.extension == wire.ExtPutFiles {
			rest, err = f.got.FileStatus.Parse(rest)
		} else if err == nil {
			rest, err = f.got.Parse(rest)
		}
		if errors.Is(err, wire.ErrShort) {
			err = parse(err)
		}
		if f.err = err; err == nil && f.got.Code != wire.OK {
			f.err = &StatusError{Code: uint32(f.got.Code), Message: f.got.Message}
		}
		close(f.done)
	}
	n.release()
}

// release gives up one use of the answer.
func (n *bundle) release() {
	if n.left.Add(-1) == 0 {
		n.session.conn.Recycle(n.call)
	}
}

// wait waits for the answer about the file, and passes it to use, which may be nil.
func (f *bundled) wait(ctx context.Context, use func(*wire.GotFile) error) error {
	defer f.bundle.release()
	select {
	case <-f.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.err != nil || use == nil {
		return f.err
	}
	return use(&f.got)
}

func (c privateClient) PutsFiles() bool { return c.offered(wire.ExtPutFiles) }
func (c privateClient) GetsFiles() bool { return c.offered(wire.ExtGetFiles) }

func (c privateClient) StartPut(name, temporary string, p []byte, perm fs.FileMode, attrs NewAttrs,
	flush bool) (wait func() error) {
	wrapped := func(err error) error {
		if err != nil {
			err = &fs.PathError{Op: "put", Path: name, Err: err}
		}
		return err
	}
	set := attrs.change()
	m := wire.PutFile{Set: set.Attrs, Data: p, Created: wire.Attrs{
		Flags: wire.AttrPermissions, Permissions: wire.PermissionBits(perm)}}
	if flush {
		m.Flags = wire.PutFsync
	}
	var f *bundled
	var pathErr, tempErr error
	m.Path, pathErr = c.encodePath(name)
	m.Temporary, tempErr = c.encodePath(temporary)
	err := cmp.Or(set.err, pathErr, tempErr)
	if err == nil {
		const fields = 80
		f, err = c.puts.add(c.session, name, fields+len(m.Path)+len(m.Temporary)+len(p), m.Append)
	}
	if err != nil {
		return func() error { return wrapped(err) }
	}
	c.changed(name)
	return func() error {
		defer c.changed(name)
		return wrapped(f.wait(c.ctx, nil))
	}
}

func (c privateClient) GetFile(name string, size int,
	memory func() []byte) (after *FileStat, err error) {
	m := wire.GetFile{Size: uint32(size)}
	if m.Path, err = c.encodePath(name); err == nil {
		var f *bundled
		const fields = 96
		takes := fields + max(size, len(m.Path))
		if f, err = c.gets.add(c.session, name, takes, m.Append); err == nil {
			err = f.wait(c.ctx, func(got *wire.GotFile) error {
				if len(got.Data) != size {
					return hook.ErrOtherSize
				}
				copy(memory(), got.Data)
				stat := newFileStat(&got.Attrs)
				after = &stat
				return nil
			})
		}
	}
	if err != nil {
		err = &fs.PathError{Op: "get", Path: name, Err: err}
	}
	return after, err
}
