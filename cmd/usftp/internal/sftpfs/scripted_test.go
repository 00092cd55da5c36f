//go:build linux || darwin

package sftpfs

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
)

// scripted is a file system of a scripted server, without a kernel: tests make its calls.
type scripted struct {
	*FS
	server  *sftptest.Scripted
	link    sftptest.LinkConfig
	version string // of the server
	rescues string // the directory of rescue files
	buffer  int64  // for written data, if not bufferSize
	streams int    // sessions that the connection may have, if more than one

	mu    sync.Mutex
	pool  *pool.Pool      // of the present connection, if it may have several sessions
	ends  []*sftptest.End // of the present connection's sessions
	quiet bool            // nothing comes from the server any more
}

// bufferSize is how much written data may wait for the server.
const bufferSize = 1 << 20

// scriptedTimeout is how long calls wait for the server.
const scriptedTimeout = time.Minute

func mountScripted(t *testing.T, cache time.Duration, script sftptest.Script) *scripted {
	t.Helper()
	s := &scripted{server: sftptest.NewServer(t, script)}
	s.mount(t, cache)
	return s
}

// openSSH is the version of a server that is known to work in order.
const openSSH = "SSH-2.0-OpenSSH_10.0"

// mountOpenSSH mounts a directory of a server that is known to work in order, over a link with a
// delay.
func mountOpenSSH(t *testing.T, roundTrip, cache time.Duration) *scripted {
	t.Helper()
	s := &scripted{server: sftptest.NewServer(t, sftptest.Script{}),
		version: openSSH,
		link:    sftptest.LinkConfig{ToServer: roundTrip / 2, ToClient: roundTrip / 2}}
	s.mount(t, cache)
	return s
}

func (s *scripted) mount(t *testing.T, cache time.Duration) {
	t.Helper()
	host, err := s.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.rescues = t.TempDir()
	s.FS, err = New(t.Context(), host, Options{Root: "/", Timeout: scriptedTimeout, Cache: cache,
		Buffer: cmp.Or(s.buffer, bufferSize), RescueDir: s.rescues})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.closePool()
		s.cut()
	})
}

// dial connects to the server.
func (s *scripted) dial(ctx context.Context) (pool.Host, error) {
	if err := s.alive(ctx); err != nil {
		return pool.Host{}, err
	}
	s.closePool()
	s.mu.Lock()
	s.ends = nil
	s.mu.Unlock()
	client, err := connection{s}.Open(ctx)
	host := pool.Host{Client: client, Redial: s.dial}
	if s.streams > 1 {
		s.pool = pool.New(pool.Config{First: connection{s}, Connections: 1, Streams: s.streams})
		host.Pool = s.pool
	}
	return host, err
}

func (s *scripted) closePool() {
	if s.pool != nil {
		s.pool.Close()
	}
}

// connection opens sessions.
type connection struct{ *scripted }

func (c connection) Close() error { return nil }

func (c connection) Open(context.Context) (*usftp.Client, error) {
	end := c.server.Dial(c.scripted.link)
	c.mu.Lock()
	c.ends = append(c.ends, end)
	c.mu.Unlock()
	return usftp.NewClientPipe(end, end, usftp.WithServerVersion(c.version),
		usftp.WithStallTimeout(scriptedTimeout/2), usftp.WithKeepalive(c.alive))
}

// alive waits for an answer of the server's transport.
func (s *scripted) alive(ctx context.Context) error {
	s.mu.Lock()
	quiet := s.quiet
	s.mu.Unlock()
	if quiet {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

// silence makes everything vanish that is sent to the server, and restore makes it reachable again
// over a new connection.
func (s *scripted) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = true
	for _, end := range s.ends {
		end.Silence()
	}
}

func (s *scripted) restore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quiet = false
}

// cut ends the connection.
func (s *scripted) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.ends {
		end.Cut(nil)
	}
}

// opened is a file that the kernel has open.
type opened struct {
	*scripted
	t      *testing.T
	header fuse.InHeader
	fh     uint64
}

// open opens a file in the root.
func (s *scripted) open(t *testing.T, name string) *opened {
	t.Helper()
	return s.openIn(t, fuse.FUSE_ROOT_ID, name)
}

func (s *scripted) openIn(t *testing.T, dir uint64, name string) *opened {
	t.Helper()
	return s.openFlags(t, dir, name, os.O_RDWR)
}

func (s *scripted) openFlags(t *testing.T, dir uint64, name string, flags int) *opened {
	t.Helper()
	var entry fuse.EntryOut
	if status := s.Lookup(nil, &fuse.InHeader{NodeId: dir}, name, &entry); status != fuse.OK {
		t.Fatal(status)
	}
	o := &opened{s, t, fuse.InHeader{NodeId: entry.NodeId}, 0}
	var out fuse.OpenOut
	if status := s.Open(nil, &fuse.OpenIn{InHeader: o.header, Flags: uint32(flags)},
		&out); status != fuse.OK {
		t.Fatal(status)
	}
	o.fh = out.Fh
	return o
}

func (o *opened) write(off int, data string) {
	o.t.Helper()
	in := fuse.WriteIn{InHeader: o.header, Fh: o.fh, Offset: uint64(off), Size: uint32(len(data)),
		Flags: uint32(o.files.get(o.fh).flags)}
	if n, status := o.Write(nil, &in, []byte(data)); status != fuse.OK || int(n) != len(data) {
		o.t.Errorf("write: %d, %v", n, status)
	}
}

func (o *opened) sync() fuse.Status {
	return o.Fsync(nil, &fuse.FsyncIn{InHeader: o.header, Fh: o.fh})
}

func (o *opened) read(size int) (string, fuse.Status) { return o.readAt(0, size) }

func (o *opened) readAt(off, size int) (string, fuse.Status) {
	in := fuse.ReadIn{InHeader: o.header, Fh: o.fh, Offset: uint64(off), Size: uint32(size)}
	result, status := o.Read(nil, &in, make([]byte, size))
	if status != fuse.OK {
		return "", status
	}
	data, status := result.Bytes(make([]byte, size))
	return string(data), status
}

func (o *opened) getAttr() (attr fuse.AttrOut, status fuse.Status) {
	status = o.GetAttr(nil, &fuse.GetAttrIn{InHeader: o.header}, &attr)
	return attr, status
}

func (o *opened) setAttr(in fuse.SetAttrInCommon) fuse.Status {
	in.InHeader = o.header
	in.Fh = o.fh
	in.Valid |= fuse.FATTR_FH
	var out fuse.AttrOut
	return o.SetAttr(nil, &fuse.SetAttrIn{SetAttrInCommon: in}, &out)
}

// lookup returns the header of calls on a name in a directory.
func (s *scripted) lookup(t *testing.T, dir *fuse.InHeader, name string) *fuse.InHeader {
	t.Helper()
	var out fuse.EntryOut
	if status := s.Lookup(nil, dir, name, &out); status != fuse.OK || out.NodeId == 0 {
		t.Fatalf("%s: %v", name, status)
	}
	return &fuse.InHeader{NodeId: out.NodeId}
}

// names returns what a program sees in a directory.
func (s *scripted) names(t *testing.T, dir *fuse.InHeader) (names []string) {
	t.Helper()
	var out fuse.OpenOut
	if status := s.OpenDir(nil, &fuse.OpenIn{InHeader: *dir}, &out); status != fuse.OK {
		t.Fatal(status)
	}
	defer s.ReleaseDir(&fuse.ReleaseIn{InHeader: *dir, Fh: out.Fh})
	in := &fuse.ReadIn{InHeader: *dir, Fh: out.Fh}
	status := s.readDir(nil, in, func(_ *dirHandle, entry fuse.DirEntry, _ *fileEntry) bool {
		if entry.Name != "." && entry.Name != ".." {
			names = append(names, entry.Name)
		}
		return true
	})
	if status != fuse.OK {
		t.Fatal(status)
	}
	slices.Sort(names)
	return names
}
