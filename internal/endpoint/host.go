package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// Host is the Place of a host.
type Host struct {
	ctx   context.Context
	conn  *pool.Conn
	retry func(name string, a pool.Attempt)
	trip  atomic.Int64 // that the first Stat took

	cleanup cleanup
	turns   turns
}

// NewHost returns the host that conn leads to. retry is called with the request's name before a
// lost connection is replaced. ctx is the run's.
func NewHost(ctx context.Context, conn *pool.Conn, retry func(name string, a pool.Attempt)) *Host {
	return &Host{ctx: ctx, conn: conn, retry: retry, turns: turns{turn: make(chan struct{}, 1)}}
}

func (h *Host) Conn() *pool.Conn            { return h.conn }
func (h *Host) Opener(on *pool.Host) Opener { return OnHost{Host: on} }

// Pooled returns the host with its current connection.
func (h *Host) Pooled() pools.Host {
	host := h.conn.Host()
	return pools.OfHost(&host)
}

// Quirks returns the quirks that the host has shown.
func (h *Host) Quirks() *quirks.Quirks { return h.Pooled().Quirks() }

// Trip returns the time that the first Stat took, or 0 before it.
func (h *Host) Trip() time.Duration { return time.Duration(h.trip.Load()) }

// WithReconnect calls do, and calls it again over a new connection if the old one was lost. again
// is then true, since the request may have been executed although its reply was lost.
func (h *Host) WithReconnect(name string, do func(client *usftp.Client, again bool) error) error {
	return h.conn.Do(func(a pool.Attempt) { h.retry(name, a) }, do)
}

// A reconnecting is a function that calls do as WithReconnect does.
type reconnecting func(name string, do func(client *usftp.Client, again bool) error) error

// ask asks a question about a name, and repeats it over a new connection if need be.
func ask[T any](over reconnecting, name string,
	question func(client *usftp.Client) (T, error)) (answer T, err error) {
	err = over(name, func(client *usftp.Client, _ bool) error {
		answer, err = question(client)
		return err
	})
	return answer, err
}

// askPath asks a question about a path of the host.
func askPath[T any](h *Host, name string,
	question func(*usftp.Client, string) (T, error)) (T, error) {
	return ask(h.WithReconnect, name, func(client *usftp.Client) (T, error) {
		return question(client, name)
	})
}

// lookAt asks for the Info of a path.
func lookAt(h *Host, name string,
	question func(*usftp.Client, string) (fs.FileInfo, error)) (Info, error) {
	return seen(askPath(h, name, question))
}

// seen converts a server's answer about a file.
func seen(info fs.FileInfo, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	return OfStat(info.Sys().(*usftp.FileStat)), nil
}

func (h *Host) Join(dir, name string) string { return path.Join(dir, name) }

func (h *Host) Base(name string) string {
	name = strings.TrimRight(name, "/")
	if base := path.Base(name); name != "" && base != ".." {
		return base
	}
	return "."
}

func (h *Host) Identity(name string) (host, path string, ok bool) {
	is := h.conn.Host()
	return "host " + cmp.Or(is.Identity, is.Name), name, true
}

// Stat implements Place. It uses the answer to the first request if that asked about the path.
func (h *Host) Stat(name string) (Info, error) {
	began := time.Now()
	i, err := lookAt(h, name, func(*usftp.Client, string) (fs.FileInfo, error) {
		return h.Pooled().Stat(h.ctx, name)
	})
	h.trip.CompareAndSwap(0, int64(time.Since(began)))
	return i, err
}

func (h *Host) Lstat(name string) (Info, error) { return lookAt(h, name, Unfollowed) }

// Unfollowed stats a name without following a link, whatever the server.
func Unfollowed(client *usftp.Client, name string) (fs.FileInfo, error) {
	return private.OfClient(client).Look(name)
}

// followed stats a name and follows links, by other requests if the server refuses STAT.
func followed(client *usftp.Client, name string) (fs.FileInfo, error) {
	return private.OfClient(client).Find(name)
}

func (h *Host) RealPath(name string) (string, error) {
	return askPath(h, name, (*usftp.Client).RealPath)
}

func (h *Host) ReadLink(name string) (string, error) {
	return askPath(h, name, (*usftp.Client).ReadLink)
}

// Mark implements Place. SFTP has no inodes, so it uses the directory's real path, type, owner and
// file system.
func (h *Host) Mark(dir string) (string, error) {
	real, err := h.RealPath(dir)
	if private.Untold(err) {
		real = path.Clean(dir)
	} else if err != nil {
		return "", err
	}
	i, err := lookAt(h, dir, (*usftp.Client).Stat)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(real, i.Mode.Type(), i.Owner.UID, i.Owner.GID, h.Volume(dir)), nil
}

func (h *Host) Volume(name string) (id [2]uint64) {
	h.WithReconnect(name, func(client *usftp.Client, _ bool) error {
		if _, known := client.HasExtension(wire.ExtStatVFS); !known {
			return nil
		}
		vfs, err := client.StatVFS(name)
		if err == nil {
			id[0] = vfs.Fsid
		}
		return err
	})
	return id
}

// List implements FS. After a lost connection, the server's order and the directory may have
// changed.
func (h *Host) List(dir string, _ *Info, restart func(),
	each func(string, Info, error) bool) error {
	return h.list(dir, restart, each, h.WithReconnect)
}

func (h *Host) list(dir string, restart func(), each func(string, Info, error) bool,
	over reconnecting) error {
	var known *names
	if restart == nil {
		known = &names{seed: maphash.MakeSeed()}
	}
	return over(dir, func(client *usftp.Client, again bool) error {
		switch {
		case !again:
		case known != nil:
			known.again()
		default:
			restart()
		}
		entries := client.Entries
		if h.turns.helped.Load() {
			entries = func(dir string) iter.Seq2[*usftp.File, error] {
				return h.turns.inTurn(h.ctx, client, dir)
			}
		}
		others := h.turns.listed.Add(1) > 1 || private.OfClient(client).OpenHandles() > 0
		defer h.turns.listed.Add(-1)
		begun, err := listOnce(h.conn, client, entries(dir), known, each)
		if !begun && h.turns.isRefused(client, others, err) {
			_, err = listOnce(h.conn, client, h.turns.inTurn(h.ctx, client, dir), known, each)
		}
		return err
	})
}

// listOnce passes entries on. begun reports whether there was any.
func listOnce(conn *pool.Conn, client *usftp.Client, entries iter.Seq2[*usftp.File, error],
	known *names, each func(string, Info, error) bool) (begun bool, err error) {
	for f, err := range entries {
		if err != nil {
			return begun, err
		}
		begun = true
		name := f.BaseName()
		if known.has(name) {
			continue
		}
		stat := f.FileStat()
		i := OfStat(stat)
		if strings.HasPrefix(name, "\x00") {
			err = usftp.ErrNameCoding
		} else if !i.HasMode && !stat.HasType() { // the client could not stat it: find out why
			if i, err = seen(Unfollowed(client, f.Name())); err != nil && pool.Lost(client) {
				return begun, err
			}
		}
		if known != nil {
			known.add(name)
			conn.Arrived()
		}
		if !each(name, i, err) {
			return begun, nil
		}
	}
	conn.Arrived()
	return begun, nil
}

func (h *Host) ReadSmall(name string, most int64) (data []byte, was Info, err error) {
	err = h.WithReconnect(name, func(client *usftp.Client, _ bool) error {
		data, was, err = readSmallFrom(h, client, name, most)
		return err
	})
	return data, was, err
}

func readSmallFrom(h *Host, client *usftp.Client, name string,
	most int64) (data []byte, was Info, err error) {
	client, done := late(h, client)
	defer done()
	was, err = seen(Unfollowed(client, name))
	if private.Untold(err) {
		was, err = seenInList(client, name, err)
	}
	if err == nil && !was.Mode.IsRegular() {
		err = fmt.Errorf("%s is %w", path.Base(name), ErrNotRegular)
	}
	if err != nil {
		return nil, was, err
	}
	f, err := client.OpenRead(name)
	if err != nil {
		return nil, was, err
	}
	defer f.Close()
	data, err = io.ReadAll(io.LimitReader(f, most))
	return data, was, err
}

// seenInList looks for a name in its directory's listing, which follows no link either, on a host
// that refuses to stat it. If nothing is listed, it returns the refusal.
func seenInList(client *usftp.Client, name string, refusal error) (Info, error) {
	listed := false
	for f, err := range client.Entries(path.Dir(name)) {
		if err != nil {
			return Info{}, refusal
		}
		if listed = true; f.BaseName() == path.Base(name) {
			if f.FileStat().HasType() {
				return OfStat(f.FileStat()), nil
			}
			return Info{}, refusal
		}
	}
	if !listed {
		return Info{}, refusal
	}
	return Info{}, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
}

func (h *Host) WriteSmall(name string, data []byte, create func()) error {
	return h.WithReconnect(name, func(client *usftp.Client, again bool) error {
		return h.writeSmallTo(client, name, data, create, again)
	})
}

// slowWrite is how long creating a small file may take before it can no longer be undone: others
// may take a file that is still empty for abandoned.
const slowWrite = 5 * time.Second

func (h *Host) writeSmallTo(client *usftp.Client, name string, data []byte,
	create func(), again bool) error {
	flags := os.O_WRONLY
	if create != nil {
		flags |= os.O_CREATE | os.O_EXCL
	} else {
		var done context.CancelFunc
		client, done = late(h, client)
		defer done()
	}
	f, err := client.OpenFile(name, flags, 0o644)
	if err == nil {
		began := time.Now()
		wait := private.OfFile(f).StartWriteClose(data, usftp.NewAttrs{})
		if create != nil {
			create()
		}
		_, err = wait()
		if Refused(err) && create != nil && time.Since(began) < slowWrite {
			err = explainFailure(err, client, h.conn.Host().Name, path.Dir(name))
			if left := client.Remove(name); Refused(IgnoreMissing(left)) {
				err = fmt.Errorf("%w: %w", ErrLeft, err)
			}
		}
	} else if create != nil && errors.Is(err, usftp.ErrSSHFxFailure) {
		err = explainFailure(err, client, h.conn.Host().Name, path.Dir(name))
	}
	if err != nil && again && !pool.Lost(client) {
		err = fmt.Errorf("%w: %w", ErrRepeated, err)
	}
	return err
}

func (h *Host) Remove(name string, dir bool) error {
	return h.WithReconnect(name, func(client *usftp.Client, again bool) error {
		return h.removeOn(client, name, dir, again)
	})
}

func (h *Host) removeOn(client *usftp.Client, name string, dir, again bool) (err error) {
	client, done := late(h, client)
	defer done()
	if dir {
		err = client.RemoveDirectory(name)
	} else {
		err = client.Remove(name)
	}
	if again && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// late returns a client that also works for a while after an interruption, to clean up: to find out
// whether a file is still this run's, and to remove it or say that it is not needed any more.
func late(h *Host, client *usftp.Client) (*usftp.Client, context.CancelFunc) {
	if h.ctx.Err() == nil {
		return client, func() {}
	}
	ctx, cancel := h.Cleanup(h.ctx)
	return client.WithContext(ctx), cancel
}

const (
	// silentTime is how long a host may be silent before its cleanup is given up: a user who
	// interrupts a stuck run wants it to end.
	silentTime = time.Second

	// leastSilent is the time that a host gets in any case.
	leastSilent = 250 * time.Millisecond
)

// A cleanup is the work on a host that remains after the run's context has ended. All its
// concurrent users share a context, which one goroutine watches.
type cleanup struct {
	mu     sync.Mutex
	users  int
	ctx    context.Context
	cancel context.CancelFunc
	silent atomic.Bool // the host was silent, so it gets no further requests
}

func (h *Host) Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.ctx.Err() == nil {
		return Local{}.Cleanup(ctx)
	}
	c := &h.cleanup
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users++; c.users == 1 {
		c.ctx, c.cancel = context.WithTimeout(context.WithoutCancel(h.ctx), CleanupTime)
		go h.watch(c.ctx, c.cancel)
	}
	return c.ctx, sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.cancel()
		}
	})
}

// watch calls end if the host is silent: if its answers are overdue, or it does not even answer a
// ping. A host that takes its time for a request is not silent.
func (h *Host) watch(ctx context.Context, end func()) {
	client, began := h.conn.Host().Client, time.Now()
	var answered atomic.Bool
	go func() {
		if err := client.Ping(ctx); err == nil || errors.Is(err, errors.ErrUnsupported) {
			answered.Store(true)
		}
	}()
	tick := time.NewTicker(silentTime / 10)
	defer tick.Stop()
	for !h.cleanup.silent.Load() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		silent := !answered.Load() && time.Since(began) >= silentTime &&
			time.Since(private.OfClient(client).Heard()) >= silentTime
		if since, _ := Overdue(h.conn.Host()); !since.IsZero() {
			silent = time.Since(since) >= silentTime && time.Since(began) >= leastSilent
		}
		h.cleanup.silent.Store(silent)
	}
	end()
}

// Overdue returns since when all of a host's sessions that owe answers have sent nothing of them,
// and when the connection will be given up for that. Both are zero if nothing is overdue.
func Overdue(host pool.Host) (since, end time.Time) {
	clients := []*usftp.Client{host.Client}
	if host.Pool != nil {
		others, _ := pools.OfPool(host.Pool).Sessions()
		for _, other := range others {
			clients = append(clients, other.Client())
		}
	}
	for _, client := range clients {
		if from, to := private.OfClient(client).Overdue(); from.After(since) {
			since, end = from, to
		}
	}
	return since, end
}

// names remembers the names of a listing, so that an interrupted listing can start over without
// repeating anything. It keeps eight bytes per name. Among a million names, the chance that two
// collide, so that a file is missed, is one in thirty million, and the random seed keeps an
// attacker from raising it.
type names struct {
	seed  maphash.Seed
	added [][]uint64          // since the listing started, in pieces so that growing copies little
	known map[uint64]struct{} // before it started over
}

func (n *names) add(name string) {
	const piece = 4096
	last := len(n.added) - 1
	if last < 0 || len(n.added[last]) == piece {
		n.added = append(n.added, nil)
		last++
	}
	n.added[last] = append(n.added[last], maphash.String(n.seed, name))
}

// has reports whether a name was seen before the listing started over. A nil n has none.
func (n *names) has(name string) bool {
	if n == nil || n.known == nil {
		return false
	}
	_, there := n.known[maphash.String(n.seed, name)]
	return there
}

// again prepares for the listing to start over.
func (n *names) again() {
	if n.known == nil {
		n.known = make(map[uint64]struct{})
	}
	for _, piece := range n.added {
		for _, sum := range piece {
			n.known[sum] = struct{}{}
		}
	}
	n.added = nil
}

// A Once keeps the result of a function that asks a host. Callers wait on a channel and not, as with
// sync.OnceValue, on a lock, which package testing/synctest does not recognize as waiting.
type Once[T any] struct {
	mu     sync.Mutex
	done   chan struct{}
	result T
}

// Do returns the result of the first call's f.
func (o *Once[T]) Do(f func() T) T {
	o.mu.Lock()
	done, first := o.done, o.done == nil
	if first {
		done = make(chan struct{})
		o.done = done
	}
	o.mu.Unlock()
	if !first {
		<-done
		return o.result
	}
	defer close(done)
	o.result = f()
	return o.result
}
