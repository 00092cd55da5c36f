package server_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// ledger is an account that several servers share, as a database would keep it.
type ledger struct {
	mu   sync.Mutex
	used server.Usage
	down error // what Reserve says
}

func (l *ledger) Reserve(_ context.Context, bytes, files int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return l.down
	}
	if l.used.Bytes+bytes > l.used.MaxBytes {
		return server.ErrQuota
	}
	l.used.Bytes, l.used.Files = l.used.Bytes+bytes, l.used.Files+files
	return nil
}

func (l *ledger) Settle(bytes, files int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.Bytes, l.used.Files = l.used.Bytes+bytes, l.used.Files+files
}

func (l *ledger) Usage() server.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used
}

// unwalked is a tree that must not be walked.
type unwalked struct {
	*memfs.FS
	t *testing.T
}

func (u unwalked) List(ctx context.Context, name string) iter.Seq2[fs.FileInfo, error] {
	u.t.Errorf("%s is listed", name)
	return u.FS.List(ctx, name)
}

// TestQuotasOfOneAccount: two servers count in one account, which need not be counted first, and
// the account's failure is that of what needs it.
func TestQuotasOfOneAccount(t *testing.T) {
	l := &ledger{used: server.Usage{Bytes: 100, Files: 1, MaxBytes: 1000}}
	backend := unwalked{memfs.New(0), t}
	start(t, backend.FS, nil).put("/old", string(make([]byte, 100)))
	var nodes [2]*raw
	for i := range nodes {
		nodes[i] = start(t, backend, &server.Options{
			Policy: server.Policy{Quota: server.NewQuotaOf(l)}})
	}
	one, two := nodes[0], nodes[1]
	one.put("/a", string(make([]byte, 600)))
	write := func(c *raw) wire.Code {
		h := c.open("/b", create)
		code := c.status(wire.Write{Handle: h, Data: make([]byte, 600)})
		c.status(wire.HandleRequest{Type: wire.TypeClose, Handle: h})
		return code
	}
	want(t, write(two), wire.Failure)
	want(t, l.Usage().Bytes, 700)
	two.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/a"})
	want(t, l.Usage().Bytes, 100)
	want(t, write(two), wire.OK)
	one.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/old"})
	want(t, l.Usage(), server.Usage{Bytes: 600, Files: 1, MaxBytes: 1000})

	l.mu.Lock()
	l.down = errors.New("the database is away")
	l.mu.Unlock()
	reply := one.do(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"}).status(t)
	if reply.Code != wire.Failure || reply.Message != "the database is away" {
		t.Errorf("without the account: %+v", reply)
	}
	one.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/b"}) // which needs nothing
	want(t, l.Usage().Bytes, 0)
}

// uncounted is a ledger whose count is missing at first.
type uncounted struct {
	ledger
	counted bool
}

func (u *uncounted) Counted(context.Context) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counted, u.down
}

func (u *uncounted) Await(_, _ int64) {}

func (u *uncounted) BeginCount(context.Context) (end func(bytes, files int64) error, err error) {
	return func(bytes, files int64) error {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.used.Bytes, u.used.Files, u.counted = bytes, files, true
		return nil
	}, nil
}

// TestQuotaOfAnUncountedAccount: the tree is walked once for all servers, and not while the account
// cannot be asked.
func TestQuotaOfAnUncountedAccount(t *testing.T) {
	u := &uncounted{ledger: ledger{used: server.Usage{MaxBytes: 1000}, down: errors.New("away")}}
	backend := memfs.New(0)
	start(t, backend, nil).put("/old", string(make([]byte, 100)))
	policy := func() *server.Options {
		return &server.Options{Policy: server.Policy{Quota: server.NewQuotaOf(u)}}
	}
	one, two := start(t, unwalked{backend, t}, policy()), start(t, unwalked{backend, t}, policy())
	want(t, one.status(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"}), wire.Failure)
	u.mu.Lock()
	u.down = nil
	u.mu.Unlock()
	start(t, backend, policy()).ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
	want(t, u.Usage(), server.Usage{Bytes: 100, Files: 2, MaxBytes: 1000})
	two.put("/new", string(make([]byte, 100)))
	one.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/old"})
	want(t, u.Usage(), server.Usage{Bytes: 100, Files: 2, MaxBytes: 1000})
}
