package transfer_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// farHost is a server behind a long link, where logging in takes as long as with SSH.
type farHost struct {
	server *sftptest.Scripted
	link   sftptest.LinkConfig

	mu     sync.Mutex
	ends   []*sftptest.End // of everything that was opened
	logins int             // in progress
	most   int             // at the same time
	conns  int
	refuse int // how many connections are allowed; 0 for no limit

	aborted int // logins ended halfway
	closed  int // connections

	down, up *bottleneck // shared by all connections, nil for none

	// how long the bottlenecks carry only a part when the last of seven further connections has
	// logged in, as if all lost packets together
	losses time.Duration

	version string // "" is OpenSSH's
	oneEach bool   // each connection allows one session
	denied  int    // sessions
}

type farConn struct {
	*farHost
	sessions *atomic.Int32 // nil for the first, which has one
}

func (c farConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return nil
}

func (c farConn) Open(context.Context) (*usftp.Client, error) {
	if c.oneEach && (c.sessions == nil || c.sessions.Add(1) > 1) {
		time.Sleep(c.link.ToServer + c.link.ToClient) // simulates the link
		c.mu.Lock()
		defer c.mu.Unlock()
		c.denied++
		return nil, errors.New("no more sessions")
	}
	link := c.server.Dial(c.link)
	c.mu.Lock()
	c.ends = append(c.ends, link)
	c.mu.Unlock()
	var end io.ReadWriteCloser = link
	if c.down != nil || c.up != nil {
		end = &narrowed{end, c.down, c.up}
	}
	return usftp.NewClientPipe(end, end,
		usftp.WithServerVersion(cmp.Or(c.version, "SSH-2.0-OpenSSH_9.6")),
		usftp.WithChannelWindow(c.link.Window))
}

// open returns a first session, and a pool for further ones.
func (h *farHost) open(t *testing.T, config pool.Config) (first *usftp.Client, further *pool.Pool,
	end func()) {
	t.Helper()
	config.First, config.Connect = farConn{farHost: h}, h.connect
	first, err := config.First.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	further = pool.New(config)
	return first, further, func() {
		further.Close()
		first.Close()
	}
}

func (h *farHost) connect(ctx context.Context) (pool.Connection, error) {
	h.mu.Lock()
	h.logins++
	h.conns++
	h.most = max(h.most, h.logins)
	refused := h.refuse > 0 && h.conns >= h.refuse
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.logins--
		h.mu.Unlock()
	}()
	select {
	case <-time.After(8 * (h.link.ToServer + h.link.ToClient)):
	case <-ctx.Done():
		h.mu.Lock()
		h.aborted++
		h.mu.Unlock()
		return nil, ctx.Err()
	}
	if refused {
		return nil, errors.New("too many connections")
	}
	h.mu.Lock()
	if h.conns == 7 && h.losses > 0 {
		h.down.worsen(h.losses)
		h.up.worsen(h.losses)
	}
	h.mu.Unlock()
	return farConn{h, new(atomic.Int32)}, nil
}

// A large file over a long link uses several connections, which are added during the transfer, and
// arrives complete.
func TestLargeFileOverLongLink(t *testing.T) {
	t.Parallel()
	const trip = 400 * time.Millisecond
	// one window per round trip would take ten seconds, and a login takes three
	data := random(48 << 20)
	for name, test := range map[string]struct {
		script      sftptest.Script
		refuse      int
		rate        int64
		connections int
		most        time.Duration // up and down
		oneEach     bool
		stripes     func(int) bool
	}{
		"open way": {most: 9 * time.Second, stripes: func(n int) bool { return n > 7 }},
		"one connection": {connections: 1, most: 9 * time.Second,
			stripes: func(n int) bool { return n == 1 }},
		"refused": {refuse: 2, most: 9 * time.Second,
			stripes: func(n int) bool { return n >= 2 && n < 6 }},
		"one session": {most: 9 * time.Second, oneEach: true,
			stripes: func(n int) bool { return n > 3 && n < 8 }},
		"one open each": {most: 14 * time.Second, stripes: func(n int) bool { return n == 0 },
			script: sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeOpen && r.Stream != 1 {
					return []sftptest.Action{sftptest.Refuse(wire.Failure, "it is open")}
				}
				return nil
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &farHost{server: sftptest.NewServer(t, test.script), refuse: test.refuse,
					link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2,
						Window: 2 << 20}}
				first, further, end := h.open(t, pool.Config{Connections: test.connections})
				defer end()
				h.oneEach = test.oneEach
				host := pool.Host{Client: first, Name: "far", Pool: further}
				dir := t.TempDir()
				source, back := filepath.Join(dir, "source"), filepath.Join(dir, "back")
				if err := os.WriteFile(source, data, 0o644); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				up, err := uploadFile(t.Context(), host, source, "/target",
					transfer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				took := time.Since(began)
				if took > test.most {
					t.Errorf("it took %v to go up over %d more lanes", took, up.Stripes)
				}
				down, err := downloadFile(t.Context(), host, "/target", back,
					transfer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if !test.stripes(up.Stripes) && !test.stripes(down.Stripes) {
					t.Errorf("%d and %d more lanes took part", up.Stripes, down.Stripes)
				}
				if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, data) {
					t.Errorf("what came back differs: %v", err)
				}
				if h.denied > 1 {
					t.Errorf("%d sessions were refused", h.denied)
				}
				// ^those under way when the first was refused, and one for the one that was let in
				// with them
				if test.refuse > 0 && h.conns > 5 {
					t.Errorf("%d connections were asked for, where the second was refused", h.conns)
				}
				if h.most > 4 {
					t.Errorf("%d logged in at a time", h.most)
				}
			})
		})
	}
}

// A server that keeps each handle's writes to itself is recognized, and gets no striped file.
func TestServerThatKeepsUploadsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &farHost{server: sftptest.NewServer(t, sftptest.Script{UploadPerHandle: true}),
			link: sftptest.LinkConfig{ToServer: 200 * time.Millisecond,
				ToClient: 200 * time.Millisecond, Window: 2 << 20}}
		first, further, end := h.open(t, pool.Config{})
		defer end()
		data := random(24 << 20)
		source := filepath.Join(t.TempDir(), "source")
		if err := os.WriteFile(source, data, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := uploadFile(t.Context(),
			pool.Host{Client: first, Name: "far", Pool: further}, source, "/target",
			transfer.Options{})
		if err != nil || r.Stripes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if got, err := h.server.Files.ReadFile("/target"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the target differs: %v", err)
		}
	})
}

// On a host that counts reads a file is opened once, however long the link is.
func TestMailboxIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}), version: "SSH-2.0-Sterling",
			link: sftptest.LinkConfig{ToServer: 200 * time.Millisecond,
				ToClient: 200 * time.Millisecond, Window: 2 << 20}}
		first, further, end := h.open(t, pool.Config{})
		defer end()
		data := random(24 << 20)
		h.server.Files.WriteFile("/source", data)
		target := filepath.Join(t.TempDir(), "target")
		r, err := downloadFile(t.Context(),
			pool.Host{Client: first, Name: "far", Pool: further}, "/source", target,
			transfer.Options{})
		if err != nil || r.Stripes != 0 || len(h.server.Requests(wire.TypeOpen)) != 1 {
			t.Errorf("%+v, %v; it was opened %d times", r, err,
				len(h.server.Requests(wire.TypeOpen)))
		}
		if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the target differs: %v", err)
		}
	})
}

// cutAfter cuts one of the connections after a while.
func (h *farHost) cutAfter(d time.Duration, i int) {
	time.AfterFunc(d, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if i < len(h.ends) {
			h.ends[i].Cut(nil)
		}
	})
}

// TestConnectionOfSeveralLost: if one of several connections is lost the others continue and it is
// replaced; if it is the first, one of the others takes its place without a login.
func TestConnectionOfSeveralLost(t *testing.T) {
	t.Parallel()
	const trip = 400 * time.Millisecond
	data := random(64 << 20)
	for name, lost := range map[string]int{"the first": 0, "another": 2} {
		for _, direction := range []way{upload, download} {
			t.Run(name+" "+direction.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &farHost{server: sftptest.NewServer(t, sftptest.Script{}),
						link: sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2,
							Window: 2 << 20}}
					first, further, end := h.open(t, pool.Config{Connections: 3, Streams: 1})
					defer end()
					host := pool.Host{Client: first, Name: "far", Pool: further,
						Redial: func(context.Context) (pool.Host, error) {
							return pool.Host{}, errors.New("nobody is there")
						}}
					b := &bench{t: t, server: h.server, host: host, dir: t.TempDir()}
					source, target := b.local("source", data), "/target"
					if direction == download {
						h.server.Files.WriteFile("/source", data)
						source, target = "/source", filepath.Join(b.dir, "target")
					}
					h.cutAfter(6*time.Second, lost)
					r, err := b.job(direction, source, target,
						func(j *copyJob) { j.Options.Retries = 1 })
					if err != nil || r.Bytes != int64(len(data)) {
						t.Fatalf("%+v, %v", r, err)
					}
					if !bytes.Equal(b.arrived(direction), data) {
						t.Error("the target differs")
					}
					retried := ""
					for _, e := range b.events {
						if e.Kind == transfer.Retried {
							retried += e.Message
						}
					}
					if lost == 0 && (!strings.Contains(retried,
						"far: connection lost; continuing over another one") || r.Resumed == 0) {
						t.Errorf("it was told %q; %+v", retried, r)
					}
					h.mu.Lock()
					defer h.mu.Unlock()
					// two that were wanted, and one to replace the lost one
					if lost != 0 && (retried != "" || h.conns != 3) {
						t.Errorf("it was told %q; %d connections besides the first", retried,
							h.conns)
					}
				})
			})
		}
	}
}
