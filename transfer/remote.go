package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// Remote returns an endpoint for a path on a host.
func Remote(host pool.Host, path string) Endpoint {
	return Endpoint{host: host.Name, path: path,
		newSource: func(j *job) (source, error) {
			e, err := newRemoteEnd(j, host, path)
			return &remoteSource{e}, err
		},
		newTarget: func(j *job) (target, error) {
			e, err := newRemoteEnd(j, host, path)
			return &remoteTarget{remoteEnd: e, placement: placement{e.quirks()}}, err
		}}
}

var errNoClient = errors.New("transfer: the Host has no Client")

// remoteEnd is common to sources and targets on a host.
type remoteEnd struct {
	job    *job
	client *usftp.Client // as the caller gave it
	link   *pool.Conn    // shared with the other end if both have the same client
	root   string
	trip   time.Duration // how long the first stat of root took
}

func newRemoteEnd(j *job, host pool.Host, root string) (*remoteEnd, error) {
	if host.Client == nil { // it would panic on a goroutine of ours
		return nil, errNoClient
	}
	e := &remoteEnd{job: j, client: host.Client, root: root}
	if other, ok := j.src.(*remoteSource); ok && other.client == host.Client {
		e.link = other.link
	} else {
		e.link = pool.NewConn(j.ctx, host, j.options.Retry)
	}
	return e, nil
}

func (e *remoteEnd) quirks() *pool.Quirks {
	if e == nil {
		return nil
	}
	return e.link.Host().Quirks
}

func (e *remoteEnd) conn() *pool.Conn { return e.link }

func (e *remoteEnd) join(dir, name string) string { return path.Join(dir, name) }

func (e *remoteEnd) identity(name string) (host, path string, ok bool) {
	h := e.link.Host()
	return "host " + h.ID(), name, true
}

// over calls do for an entry of a tree, and again over a new connection if the connection was lost.
func (e *remoteEnd) over(name string, do func(client *usftp.Client, again bool) error) error {
	return e.link.Do(func(a pool.Attempt) {
		event := retried(a, e.job.doing()+" "+name, &Event{Size: -1})
		event.Source = name
		e.job.tell(event)
	}, do)
}

// stat stats a path and, for root, notes how long that took.
func (e *remoteEnd) stat(name string) (info fs.FileInfo, err error) {
	began := time.Now()
	err = e.over(name, func(*usftp.Client, bool) error {
		host := e.link.Host()
		info, err = host.Stat(e.job.ctx, name)
		return err
	})
	if name == e.root {
		e.trip = time.Since(began)
	}
	return info, err
}

func (e *remoteEnd) realPath(name string) (real string, err error) {
	err = e.over(name, func(client *usftp.Client, _ bool) error {
		real, err = client.RealPath(name)
		return err
	})
	return real, err
}

func (e *remoteEnd) lstat(name string) error {
	return e.over(name, func(client *usftp.Client, _ bool) error {
		_, err := client.Lstat(name)
		return err
	})
}

func (e *remoteEnd) fileSystem(name string) (id [2]uint64) {
	client := e.link.Host().Client
	if _, told := client.HasExtension("statvfs@openssh.com"); !told {
		return id
	}
	if vfs, err := client.StatVFS(name); err == nil {
		id[0] = vfs.Fsid
	}
	return id
}

func (e *remoteEnd) touch(name string) (remove func() error, err error) {
	client := e.link.Host().Client
	remove = func() error {
		ctx, cancel := cleanupContext(e.job.ctx)
		defer cancel()
		return e.over(name, func(client *usftp.Client, _ bool) error {
			return client.WithContext(ctx).Remove(name)
		})
	}
	f, err := client.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		f.Close()
	case !pool.Lost(client):
		remove = nil
	}
	return remove, err
}

const (
	// largestSmall is the largest file sent in one piece, if packets can be that long.
	largestSmall = 256 << 10

	// unknownHandles is how many files may be open at once on a server that does not say how many
	// it allows.
	unknownHandles = 128
)

// limits asks the host what may be in progress at once. piece returns the size of a packet's data
// in the direction of the copy.
func (e *remoteEnd) limits(piece func(read, write int) int) (l limits, err error) {
	err = e.over(e.root, func(client *usftp.Client, _ bool) error {
		limits, err := client.Limits()
		if err != nil {
			return err
		}
		read, write, err := private.OfClient(client).DataSizes()
		l.small = min(piece(read, write), largestSmall)
		l.handles, l.listings = unknownHandles, walkers
		most := walkers
		if t := e.job.tree; t != nil && t.sync != nil { // most directories have nothing to copy
			most = syncWalkers
		}
		if _, told := client.HasExtension("limits@openssh.com"); told {
			l.handles = 1 << 20
			if limits.MaxOpenHandles > 0 { // keep some for listings and other uses
				all := int64(min(limits.MaxOpenHandles, 1<<20))
				l.handles = max(1, all*3/4)
				l.listings = int(max(1, min(all-l.handles, int64(most))))
			}
		}
		return err
	})
	host := e.link.Host()
	l.trip = max(e.trip, host.LoginTrip())
	return l, err
}

// remoteFacts returns what a server said about a file.
func remoteFacts(stat *usftp.FileStat) (f facts) {
	f.told(stat)
	return f
}

// told sets facts from what a server said about a file. It is not inlined, to keep the stacks of
// thousands of files small.
//
//go:noinline
func (f *facts) told(stat *usftp.FileStat) {
	*f = facts{size: -1}
	if stat == nil {
		return
	}
	f.hasMode, f.hasTimes, f.mtime, f.atime = stat.HasMode(), stat.HasTimes(), stat.ModTime(), stat.AccessTime()
	f.owner = localfs.Owner{UID: int(stat.UID), GID: int(stat.GID), Known: stat.HasOwner()}
	if stat.HasMode() {
		f.mode = stat.FileMode()
	}
	if stat.HasSize() && int64(stat.Size) >= 0 {
		f.size = int64(stat.Size)
	}
}

// remoteSource is a path on a host as a source.
type remoteSource struct{ *remoteEnd }

func (s *remoteSource) open(c *fileCopy) (input, error) {
	in := &remoteInput{session: c.from, path: c.source, bound: sizeGuard(0), original: true}
	if c.entry != nil {
		in.known = c.entry.facts
		return in, nil
	}
	return in, in.ready(c)
}

func (s *remoteSource) base(name string) (string, error) {
	name = strings.TrimRight(name, "/")
	if base := path.Base(name); name != "" && base != ".." {
		return base, nil
	}
	return ".", nil
}

func (s *remoteSource) limits() (limits, error) {
	return s.remoteEnd.limits(func(read, _ int) int { return read })
}

func (s *remoteSource) look(name string) (facts, error) {
	info, err := s.stat(name)
	if err != nil {
		return facts{}, ofSource(err)
	}
	return remoteFacts(info.Sys().(*usftp.FileStat)), nil
}

// list lists a directory. If the connection is lost the listing starts over and yields only entries
// not yielded before: neither the server's order nor the directory need have stayed the same.
func (s *remoteSource) list(d *directory, yield func(*entry, error) bool) error {
	known := newNames()
	return ofSource(s.over(d.source, func(client *usftp.Client, again bool) error {
		if again {
			known.again()
		}
		for f, err := range client.Entries(d.source) {
			if err != nil {
				return err
			}
			if known.has(f.BaseName()) {
				continue
			}
			e := &entry{dir: d, name: f.BaseName(), facts: remoteFacts(f.FileStat())}
			if !e.facts.hasMode { // the listing had no attributes
				var info fs.FileInfo
				if info, err = client.Lstat(f.Name()); err == nil {
					e.facts = remoteFacts(info.Sys().(*usftp.FileStat))
				} else if pool.Lost(client) {
					return err
				}
			}
			known.add(f.BaseName())
			s.link.Arrived()
			if !yield(e, ofSource(err)) {
				break
			}
		}
		return nil
	}))
}

func (s *remoteSource) readLink(name string) (to string, err error) {
	err = s.over(name, func(client *usftp.Client, _ bool) error {
		to, err = client.ReadLink(name)
		return err
	})
	return to, ofSource(err)
}

// loops compares the directories' real paths.
func (s *remoteSource) loops(d *directory) string {
	real, err := s.realPath(d.source)
	if err != nil {
		return ""
	}
	d.real = real
	for above := d.parent; above != nil; above = above.parent {
		if above.real == "" {
			above.real, _ = s.realPath(above.source)
		}
		if above.real == real {
			return "it leads back to " + above.source
		}
	}
	return ""
}

// sum lets the host hash the file, or reads it.
func (s *remoteSource) sum(c *fileCopy) error {
	c.size = c.entry.facts.size
	wanted := c.options.Hash
	known := c.from.client.CheckFileAlgorithms()
	if known == nil || slices.Contains(known, hostName(wanted)) {
		theirs := c.from.hashes(c.source, nil, usftp.CheckFile{Algorithms: []string{hostName(wanted)}})
		if theirs != nil && len(theirs.Hashes) == 1 {
			c.hashing.hash = checksum.Hash{Algorithm: wanted, Sum: theirs.Hashes[0]}
			c.hashing.verified = VerifiedByHash
			c.result.Bytes = max(0, c.size)
			return nil
		}
	}
	if private.OfClient(c.from.client).ReadsOnce() { // it hashes, but not by the list's algorithm
		return errReadOnce
	}
	sum := checksum.NewDigest(wanted, 0)
	err := private.ErrOtherSize
	if c.isSmall() {
		err = c.from.hashSmall(c, c.source, c.size, sum)
	}
	if errors.Is(err, private.ErrOtherSize) {
		sum, err = s.sumLarge(c, wanted)
	}
	if errors.Is(err, errDiffers) {
		return errChanging
	}
	if err == nil {
		c.hashing.hash = checksum.Hash{Algorithm: wanted, Sum: sum.Sums[0]}
		c.hashing.verified, c.result.Bytes = VerifiedByReading, max(0, c.size)
	}
	return err
}

func (s *remoteSource) sumLarge(c *fileCopy, wanted checksum.Algorithm) (*checksum.Digest, error) {
	f, err := c.from.client.OpenRead(c.source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	name := c.source
	if f.AttrsCached() && f.FileStat().HasSize() { // newer than the listing
		c.size = int64(f.FileStat().Size)
		name = fmt.Sprint(name, " ", c.size, " ", f.FileStat().Mtime)
	} else {
		c.tries.again = reread{} // nothing shows that it is still the same file
	}
	sum := c.tries.again.of(name, wanted, 0)
	from := c.tries.again.done
	defer c.watch(func() int64 { return from + f.Progress() })()
	return sum, c.from.hashLarge(c, f, c.size)
}

// remoteInput is a file on a host being read. For a target on this machine, pour reads it. A target
// on another host reads from it: sequential Reads and ReadAts are served from a stream that reads
// ahead, other ReadAts send requests of their own. It is for one goroutine.
type remoteInput struct {
	session *session
	path    string
	known   facts
	file    *usftp.File
	data    []byte // of a small file held in memory
	free    func() // of data

	off      int64 // of the next Read
	stream   io.ReadCloser
	at       int64                // of the stream
	lanes    func(int64) *striper // opens further handles for a stream at an offset, or nil
	striper  *striper             // of the stream
	bound    int64                // nothing is read beyond it
	original bool                 // it is being copied, rather than read again
	doubt    *doubt               // about what a target on another host reads, or nil
	passed   *passed              // everything such a target reads, nil unless needed
	mixed    error                // the first failed proof of a stream's handles
}

func (in *remoteInput) facts() *facts { return &in.known }

// ready opens the file, or reads it if it is small.
func (in *remoteInput) ready(c *fileCopy) error {
	if in.file != nil || in.free != nil {
		return nil
	}
	if c.isSmall() {
		if same, err := in.load(c); same || err != nil {
			return ofSource(err)
		}
		c.flags.large = true
	}
	return ofSource(in.open(c))
}

func (in *remoteInput) open(c *fileCopy) error {
	f, trip, err := in.session.host.OpenRead(c.ctx, in.path)
	if err != nil {
		return err
	}
	in.file, in.session.trip = f, trip
	in.known.told(nil)
	if !f.AttrsCached() { // nothing to compare with, or to resume from
		return nil
	}
	if in.known.told(f.FileStat()); in.known.mode.IsDir() {
		return &fs.PathError{Op: "read", Path: in.path, Err: ErrIsDirectory}
	}
	in.bound = sizeGuard(f.Info().Size())
	if in.original {
		if !c.tries.doubt.isAbout(f.FileStat()) {
			c.tries.doubt = newDoubt(in.session.client, f.FileStat())
		}
		if c.to != nil { // none of it stays on this machine
			in.doubt = c.tries.doubt
			in.doubt.remember()
			in.rememberAll(c)
		}
	}
	in.lanes = func(off int64) *striper {
		if in.session == c.to || !in.known.regular() ||
			!in.session.worthStriping(c, in.known.size-off, true) {
			return nil
		}
		return in.session.stripe(c, f, os.O_RDONLY, off, in.known.size)
	}
	return nil
}

// rememberAll hashes everything that is read, for a target elsewhere, if the server is known to
// change the times of files being read: at the end only the contents show whether the file is
// unchanged.
func (in *remoteInput) rememberAll(c *fileCopy) {
	if c.tries.passed == nil && (in.session.host.Quirks.Touches.Load() ||
		private.OfClient(in.session.client).Touches()) {
		c.tries.passed = new(passed)
	}
	if in.passed = c.tries.passed; in.passed != nil {
		in.passed.remember()
	}
}

// load reads a small file into memory before anything is created at the target.
func (in *remoteInput) load(c *fileCopy) (same bool, err error) {
	f := usftp.NewFile(in.session.client, in.path)
	if err := f.OpenRead(); err != nil {
		return false, err
	}
	size := c.entry.facts.size
	budget := c.tree.budget
	budget.memory.take(size)
	var data []byte
	release := func() {}
	now, err := private.OfFile(f).ReadClose(int(size), func() []byte {
		data, release = budget.buffers.get(int(size))
		return data
	})
	if err == nil && now != nil && now.HasMode() && now.FileMode().IsRegular() &&
		// otherwise it was written to since it was listed, perhaps just now
		(!in.known.hasTimes || !now.HasTimes() || in.known.mtime.Equal(now.ModTime())) {
		c.freeHandle()
		c.size = size
		in.known.told(now)
		in.data = data
		in.free = func() {
			release()
			budget.memory.give(size)
		}
		return true, nil
	}
	release()
	budget.memory.give(size)
	if errors.Is(err, private.ErrOtherSize) {
		err = nil
	}
	return false, err
}

// whole reads a small file for a target on another host, unless the host can copy the file itself.
func (in *remoteInput) whole(c *fileCopy, data []byte) (same bool, err error) {
	if in.copies(c) {
		return false, nil
	}
	f := usftp.NewFile(in.session.client, in.path)
	if err := f.OpenRead(); err != nil {
		return false, err
	}
	now, err := private.OfFile(f).ReadClose(len(data)-1, func() []byte { return data[:len(data)-1] })
	if errors.Is(err, private.ErrOtherSize) {
		return false, nil
	}
	if err != nil || now == nil || now.HasMode() && !now.FileMode().IsRegular() {
		return false, err
	}
	in.known.told(now)
	return true, nil
}

// copies reports whether the host can copy the file itself.
func (in *remoteInput) copies(c *fileCopy) bool {
	if in.session != c.to || c.hashes() { // what is hashed must pass through here
		return false
	}
	_, offered := in.session.client.HasExtension("copy-data")
	return offered
}

func (in *remoteInput) copyOn(c *fileCopy, to *usftp.File) (n int64, done bool, err error) {
	if !in.copies(c) || !in.known.regular() || in.known.size == 0 {
		return 0, false, nil
	}
	if d := c.tries.doubt; d.certain() {
		if err := d.wait(c.ctx); err != nil {
			return 0, true, err
		}
		c.tries.doubt, in.doubt = nil, nil
		if err := in.unchanged(c, in.known.size, nil); err != nil {
			return 0, true, err
		}
	}
	at := c.result.Resumed
	n, err = in.file.CopyRange(at, max(0, in.known.size-at), to, at)
	return n, n > 0 || !refused(err), err
}

func (in *remoteInput) pour(c *fileCopy, to sink) (n int64, err error) {
	if in.free != nil {
		c.hashing.small(c, in.data)
		err := to.small(c, in.data)
		n := int64(len(in.data))
		in.release() // before verifying takes more
		if err == nil {
			err = c.limiter.wait(int(n))
		}
		return n, err
	}
	f, resumed, d := in.file, c.result.Resumed, c.tries.doubt
	if to.reread == nil {
		d.remember()
		in.doubt = d
		in.rememberAll(c)
	}
	if n, done, err := in.pourDelta(c, to); done || err != nil {
		return n, err
	}
	c.hashing.start(c, to.reread)
	var moved atomic.Int64 // under a rate limit, writing a request's data takes a while
	defer c.watch(func() int64 { return resumed + max(f.Progress(), moved.Load()) })()
	pipe := c.hashing.pipe
	w, at, err := to.open(c)
	if err != nil {
		return 0, err
	}
	if c.limiter != nil {
		w = counting{w, &moved}
	}
	bound := sizeGuard(c.size)
	if at == nil || pipe.ordered() || in.doubt != nil || in.passed != nil || !in.known.regular() ||
		!in.session.worthStriping(c, c.size-resumed, true) {
		n, err = in.session.judge(c, f, func() (int64, int, error) {
			n, err := f.WriteTo(&guarded{pipe.writer(in.writer(c.limiter.writer(w), resumed), resumed),
				resumed, bound})
			return n, 1, err
		})
	} else {
		s := in.session.stripe(c, f, os.O_RDONLY, resumed, c.size)
		defer s.stop()
		safe := func() int64 { return resumed + f.Progress() }
		n, err = in.session.judge(c, f, func() (int64, int, error) {
			n, err := s.stripes.WriteToAt(guardedAt{pipe.writerAt(at, safe), bound})
			return n, 1 + s.count(), err
		})
		c.result.Stripes = s.stripes.Joined()
		if err == nil {
			err = s.prove()
		}
	}
	if err == nil {
		err = to.end(c, resumed+n)
	}
	if refused(err) || in.session.lost() {
		err = ofSource(err)
	}
	return n, err
}

// feed gives what was read at an offset to those that hash it.
func (in *remoteInput) feed(data []byte, off int64) {
	in.doubt.feed(data, off)
	in.passed.feed(data, off)
}

// writer returns a writer that feeds what w is given, starting at an offset.
func (in *remoteInput) writer(w io.Writer, off int64) io.Writer {
	if in.doubt == nil && in.passed == nil {
		return w
	}
	return &feedingWriter{w, in, off}
}

type feedingWriter struct {
	io.Writer
	in  *remoteInput
	off int64
}

func (w *feedingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if n > 0 && n <= len(p) {
		w.in.feed(p[:n], w.off)
		w.off += int64(n)
	}
	return n, err
}

func (in *remoteInput) unchanged(c *fileCopy, n int64, local reopen) error {
	if in.end(); in.mixed != nil {
		return in.mixed
	}
	if in.file == nil || !in.known.regular() {
		return nil
	}
	info, err := in.file.Stat()
	now := in.known // a server without FSTAT offers nothing newer to compare with
	if err == nil {
		now = remoteFacts(info.Sys().(*usftp.FileStat))
	} else if !errors.Is(err, errors.ErrUnsupported) && c.interrupted() {
		return err
	}
	if err := unchanged(&in.known, &now, n); err == errTouched {
		return in.onlyTouched(c, n, local)
	} else if err != nil {
		return err
	}
	if c.verifies() && c.to == nil { // the source itself is compared
		return nil
	}
	return c.tries.doubt.settle(c, in.file, n, local)
}

// onlyTouched checks that a source whose time changed while it was read has the contents that
// arrived, by the host's hashes or by reading all of it again. A sample would not do, since a real
// write changes the time too. rclone's SFTP server shows the current time for files in its cache
// (--vfs-cache-mode).
func (in *remoteInput) onlyTouched(c *fileCopy, n int64, local reopen) error {
	var same bool
	var err error
	switch {
	case private.OfClient(in.session.client).ReadsOnce():
		return errTouched
	case in.passed.remembers() && in.passed.fed == n:
		var now []byte
		now, err = c.tries.again.hash(c, in.file, n)
		same = bytes.Equal(now, in.passed.sum.Sum(nil))
	case c.to == nil && local != nil:
		same, err = in.sameAs(c, n, local)
	default:
		return errTouched // what arrived is not here, and was not hashed
	}
	if err != nil {
		return err
	}
	if !same {
		return ErrSourceChanged
	}
	if c.entry != nil && c.entry.facts.hasTimes { // restore the time from before it was read
		in.known.mtime, in.known.atime = c.entry.facts.mtime, c.entry.facts.atime
	}
	if !in.session.host.Quirks.Touches.Swap(true) {
		c.note("the time of the source changed while it was copied, and its contents did not: some servers show the present time of files that are read (reported once for all files of the host)")
	}
	return nil
}

// sameAs compares the first n bytes of the source with the copy on this machine.
func (in *remoteInput) sameAs(c *fileCopy, n int64, local reopen) (bool, error) {
	file, free, err := interruptible(c.ctx, local)()
	if err != nil {
		return false, err
	}
	defer free()
	if same, told := in.session.begins(in.file, file, n); told {
		return same, nil
	}
	return in.compare(c, file, n)
}

// compare reads the first n bytes of the source again, up to the first difference from a local
// file.
func (in *remoteInput) compare(c *fileCopy, file io.ReaderAt, n int64) (same bool, err error) {
	const most = 256 << 10
	again := in.file.ReadRange(0, n)
	defer again.Close()
	source := c.limiter.reader(again)
	theirs, ours := make([]byte, min(n, most)), make([]byte, min(n, most))
	for off := int64(0); off < n; {
		piece := min(n-off, most)
		_, err := io.ReadFull(source, theirs[:piece])
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if got, err := file.ReadAt(ours[:piece], off); int64(got) < piece {
			return false, err
		}
		if !bytes.Equal(theirs[:piece], ours[:piece]) {
			return false, nil
		}
		off += piece
	}
	return true, nil
}

func (in *remoteInput) inherit(c *fileCopy, m *mark) {
	if m.SourceDoubt > 0 && !c.tries.doubt.certain() {
		c.tries.doubt = inheritDoubt(in.file.FileStat(), m.SourceDoubt)
	}
}

func (in *remoteInput) verify(c *fileCopy, target reopen) error {
	if c.delta != nil {
		return c.delta.verify(in.path)
	}
	return in.session.verify(c, in.path, in.file, target)
}

func (in *remoteInput) holds(c *fileCopy) (same, told bool) {
	return in.session.holds(c.hashing.digests, in.path, nil)
}

func (in *remoteInput) begins(local io.ReaderAt, n int64) (same, told bool) {
	return in.session.begins(in.file, local, n)
}

func (in *remoteInput) reopen(c *fileCopy) reopen {
	if !in.known.regular() || private.OfClient(in.session.client).ReadsOnce() {
		return nil
	}
	return func() (io.ReaderAt, func(), error) {
		again := &remoteInput{session: in.session, path: in.path}
		if err := again.open(c); err != nil {
			return nil, nil, ofSource(err)
		}
		return again, again.close, nil
	}
}

func (in *remoteInput) release() {
	if in.free != nil {
		in.free()
		in.free, in.data = nil, nil
	}
}

func (in *remoteInput) close() {
	in.release()
	in.end()
	if in.file != nil {
		in.file.Close()
	}
}

func (in *remoteInput) contents() contents { return in }

func (in *remoteInput) Read(p []byte) (int, error) {
	n, err := in.next(in.off).Read(p)
	if grown := within(in.bound, in.off, n); grown != nil {
		return 0, ofSource(grown)
	}
	in.feed(p[:n], in.off)
	in.at += int64(n)
	in.off += int64(n)
	return n, ofSource(err)
}

// ReadAt is for callers who read everything once in order, starting anywhere, and reread a few
// pieces.
func (in *remoteInput) ReadAt(p []byte, off int64) (n int, err error) {
	if in.stream != nil && in.at != off {
		n, err = in.file.ReadAt(p, off)
	} else {
		n, err = io.ReadFull(in.next(off), p)
		in.feed(p[:n], off)
		in.at += int64(n)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
	}
	if grown := within(in.bound, off, n); grown != nil {
		return 0, ofSource(grown)
	}
	return n, ofSource(err)
}

// next returns a stream that continues at an offset.
func (in *remoteInput) next(off int64) io.Reader {
	if in.stream == nil || in.at != off {
		in.end()
		read := in.file.ReadRange
		if in.lanes != nil {
			if in.striper = in.lanes(off); in.striper != nil {
				read = in.striper.stripes.ReadRange
			}
		}
		in.stream, in.at = read(off, -1), off
	}
	return in.stream
}

// end closes the stream.
func (in *remoteInput) end() {
	if in.stream != nil {
		in.stream.Close()
		in.stream = nil
	}
	if in.striper != nil {
		if err := in.striper.prove(); err != nil && in.mixed == nil {
			in.mixed = err
		}
		in.striper.stop()
		in.striper = nil
	}
}

// Seek sets the offset of the next Read. It cannot seek from the end.
func (in *remoteInput) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += in.off
	case io.SeekEnd:
		return in.off, ofSource(errors.ErrUnsupported)
	}
	in.off = off
	if in.at != off { // otherwise the stream is already at the right place
		in.end()
	}
	_, err := in.file.Seek(off, io.SeekStart)
	return off, ofSource(err)
}

// remoteTarget is a path on a host as a target.
type remoteTarget struct {
	*remoteEnd
	placement
	there bool // a tree's target existed before anything was made
	real  realRoot
}

func (t *remoteTarget) close()           {}
func (t *remoteTarget) is(facts) bool    { return false }
func (t *remoteTarget) leave(*directory) {}

func (t *remoteTarget) limits() (limits, error) {
	l, err := t.remoteEnd.limits(func(_, write int) int { return write })
	// A small file sent in one piece cannot be fsynced on the way. With Sync these files take as
	// many steps as large ones, and many are in progress at a time.
	if t.job.options.Sync {
		l.stepwise, l.small = l.small, -1
	}
	return l, err
}

func (t *remoteTarget) begin(_ facts, base string, inside func() error) (string, error) {
	if base != "." && t.job.src.conn() != nil {
		if err := localfs.CheckForeignName(base); err != nil {
			return t.root, &fs.PathError{Op: "copy", Path: t.job.route.Source, Err: err}
		}
	}
	name := t.root
	if name == "" {
		name = "."
	}
	began := time.Now()
	info, err := t.stat(name)
	t.trip = time.Since(began)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return name, err
	case !info.IsDir():
		return name, &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
	default:
		name = path.Join(name, base)
		t.there = base == "."
	}
	return name, inside()
}

func (t *remoteTarget) dispose(string) bool { return false }

// tidy also restores the name of an old file that was moved aside, if that name is free.
func (t *remoteTarget) tidy(root, rel string, stale func(name string) bool) error {
	dir := path.Join(root, rel)
	return t.over(dir, func(client *usftp.Client, _ bool) error {
		var names []string
		for f, err := range client.Entries(dir) {
			if err != nil {
				return notThere(err)
			}
			if stale(f.BaseName()) {
				names = append(names, f.BaseName())
			}
		}
		var steps []step
		var failed error
		for _, name := range names {
			temporary := path.Join(dir, name)
			if base, old := localfs.OldNameOf(name); old {
				if base == "" {
					failed = errOldName
					continue
				}
				target := path.Join(dir, base)
				if _, err := client.Lstat(target); errors.Is(err, fs.ErrNotExist) {
					failed = errors.Join(failed, client.Rename(temporary, target))
					continue
				}
			}
			steps = append(steps, func() func() error {
				removed := waits(t.job.ctx, client.Async().Remove(temporary))
				return func() error { return notThere(removed()) }
			})
		}
		return errors.Join(failed, take(steps, true))
	})
}

var errOldName = errors.New("nobody can tell what the old file was called")

// check refuses names that SFTP cannot carry, and those that a source server must not choose.
func (t *remoteTarget) check(d *directory, name string) error {
	if strings.ContainsAny(name, "/\x00") {
		return ErrBadName
	}
	if t.job.src.conn() == nil {
		return nil
	}
	if err := localfs.CheckForeignName(name); err != nil {
		return err
	}
	// Writing in place follows whatever the name leads to, so the source must not have turned it
	// into a link with an earlier entry.
	if t.job.options.Placement == PlaceDirect && !d.addName(name) {
		return errTwice
	}
	return nil
}

var errTwice = errors.New("server sent the same file name twice")

func (t *remoteTarget) makeDir(d *directory) (fresh bool, err error) {
	if d.parent == nil && t.there {
		return false, nil
	}
	err = t.over(d.source, func(client *usftp.Client, again bool) error {
		fresh, err = makeRemoteDir(client, d, again)
		return err
	})
	return fresh, err
}

// makeRemoteDir makes a directory. If the connection was lost during the request, an existing
// directory may be one that we made.
func makeRemoteDir(client *usftp.Client, d *directory, again bool) (fresh bool, err error) {
	err = client.MkdirPerm(d.target, d.facts.perm()|0o700)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	// Version 3 has no status for "already exists", so look at what is there.
	look := client.Lstat
	if d.parent == nil {
		look = client.Stat // the user named the target, so links in it are followed
	}
	info, lookErr := look(d.target)
	switch {
	case lookErr != nil && errors.Is(err, usftp.ErrSSHFxFailure):
		return false, explainFailure(err, client, d.tree.route.TargetHost, path.Dir(d.target))
	case lookErr != nil:
		return false, err
	case info.Mode()&fs.ModeSymlink != 0:
		return false, errLinkInWay
	case !info.IsDir():
		return false, errNotDirectory
	}
	return again && (d.parent != nil && d.parent.fresh || isEmpty(client, d.target)), nil
}

// isEmpty reports whether a directory is known to be empty.
func isEmpty(client *usftp.Client, dir string) bool {
	for range client.Entries(dir) {
		return false // an entry, or an error
	}
	return true
}

func (t *remoteTarget) finishDir(d *directory) error {
	set, err := d.attrs()
	if err != nil || set == (usftp.NewAttrs{}) {
		return err
	}
	set.Atime, set.Mtime = d.facts.times()
	return t.over(d.source, func(client *usftp.Client, _ bool) error { return client.SetAttrs(d.target, set) })
}

func (t *remoteTarget) makeLink(e *entry, to string) error {
	temporary := path.Join(e.dir.target, t.job.token.Name(e.name))
	return t.over(e.source(), func(client *usftp.Client, again bool) error {
		if again {
			client.Remove(temporary)
			if made, err := client.ReadLink(e.target()); err == nil && made == to {
				return nil
			}
		}
		return makeRemoteLink(client, e, to, temporary)
	})
}

func makeRemoteLink(client *usftp.Client, e *entry, to, temporary string) error {
	target := e.target()
	err := client.Symlink(to, target)
	if err == nil || e.dir.fresh {
		return err
	}
	info, lookErr := client.Lstat(target)
	switch {
	case lookErr != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "replace", Path: target, Err: ErrIsDirectory}
	case info.Mode()&fs.ModeSymlink != 0:
		if old, err := client.ReadLink(target); err == nil && old == to {
			return nil
		}
	}
	if err := client.Symlink(to, temporary); err != nil {
		return err
	}
	if client.HasPosixRename() {
		err = client.PosixRename(temporary, target)
	} else if err = client.Remove(target); err == nil {
		err = client.Rename(temporary, target)
	}
	if err != nil {
		client.Remove(temporary)
	}
	return err
}

// finishLink takes a round trip and needs lsetstat@openssh.com (OpenSSH PROTOCOL, section 4.7).
func (t *remoteTarget) finishLink(e *entry, set usftp.NewAttrs) error {
	return t.over(e.source(),
		func(client *usftp.Client, _ bool) error { return client.LsetAttrs(e.target(), set) })
}

// place examines the target. A file of a tree takes no round trip in a directory that this copy
// made. For a single file, a directory is entered and a symbolic link followed, since a rename
// would replace the link: that takes one round trip, and one more for a directory or a link.
func (t *remoteTarget) place(c *fileCopy, in input) (output, error) {
	o := &remoteOutput{end: t, session: c.to}
	if c.entry != nil {
		o.name = c.entry.target()
		return o, o.lookBelow(c.entry.absent())
	}
	return o, t.find(c, o)
}

// find examines the target of a single file.
func (t *remoteTarget) find(c *fileCopy, o *remoteOutput) error {
	name := t.root
	if name == "" {
		name = "."
	}
	c.name = path.Base(name)
	info, link, err := c.to.look(c.ctx, name)
	if err == nil && info.IsDir() {
		base, baseErr := t.job.src.base(c.source)
		if baseErr != nil || c.options.NoTargetDirectory {
			return &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
		if t.job.src.conn() != nil {
			if err := localfs.CheckForeignName(base); err != nil {
				return &fs.PathError{Op: "copy", Path: c.source, Err: err}
			}
		}
		name = path.Join(name, base)
		c.result.Target, c.name = name, base
		info, link, err = c.to.look(c.ctx, name)
		if err == nil && info.IsDir() {
			return &fs.PathError{Op: "write", Path: name, Err: ErrIsDirectory}
		}
	} else if strings.HasSuffix(name, "/") {
		if err == nil {
			err = &fs.PathError{Op: "write", Path: name, Err: errNotDirectory}
		}
		return err
	}
	o.name = name
	switch {
	case err == nil:
		o.info, o.isDirect = info, !info.Mode().IsRegular()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if link {
		resolved, err := c.to.client.RealPath(name)
		if err != nil || resolved == name {
			c.note("the target is a symbolic link that cannot be followed: it is written through the link, in place")
			o.isDirect = true
		} else {
			o.name = resolved
		}
	}
	return nil
}

// look is pool.Host.Look. It also keeps the time that took as the round trip.
func (s *session) look(ctx context.Context, name string) (info fs.FileInfo, link bool, err error) {
	info, link, s.trip, err = s.host.Look(ctx, name)
	return info, link, err
}

// remoteOutput is a file on a host being written.
type remoteOutput struct {
	end      *remoteTarget
	session  *session
	name     string      // the path with links resolved
	info     fs.FileInfo // the existing target, nil if there is none
	isDirect bool        // exists and is not a regular file, or a link that cannot be resolved
	temp     string      // path of the temporary file, "" if the target itself is written
	file     *usftp.File
	striper  *striper // until seal
	sealed   bool
}

func (o *remoteOutput) path() string        { return o.name }
func (o *remoteOutput) stored() string      { return o.temp }
func (o *remoteOutput) before() fs.FileInfo { return o.info }
func (o *remoteOutput) direct() bool        { return o.isDirect }
func (o *remoteOutput) atomic() bool        { return o.temp != "" }

func (o *remoteOutput) close() {
	if o.striper != nil {
		o.striper.stop()
		o.striper = nil
	}
}

// written returns the path being written.
func (o *remoteOutput) written() string {
	if o.temp != "" {
		return o.temp
	}
	return o.name
}

// lookBelow examines a path below the target of a tree.
func (o *remoteOutput) lookBelow(fresh bool) error {
	if fresh {
		return nil
	}
	info, err := o.session.client.Lstat(o.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0: // the rename will replace it
	case !info.Mode().IsRegular():
		return inTheWay(o.name, info.Mode())
	default:
		o.info = info
	}
	return nil
}

func (o *remoteOutput) rereads(c *fileCopy, in input) reopen { return in.reopen(c) }

func (o *remoteOutput) holds(c *fileCopy, in input) (same, told bool) {
	return o.session.holds(c.hashing.digests, o.name, nil)
}

func (o *remoteOutput) verify(c *fileCopy, in input) error {
	if c.delta != nil {
		return c.delta.verify(o.written())
	}
	return o.session.verify(c, o.written(), nil, in.reopen(c))
}

// same makes sure that a file does not overwrite itself.
func (o *remoteOutput) same(c *fileCopy, in input) error {
	if c.entry != nil || o.info == nil || c.from != c.to {
		return nil
	}
	source, err := o.session.client.RealPath(c.source)
	if err != nil {
		return nil
	}
	if to, err := o.session.client.RealPath(o.name); err == nil && to == source {
		return errSameFile
	}
	return nil
}

// create creates the temporary file, or opens the target if it is to be written in place.
func (o *remoteOutput) create(c *fileCopy, in input) (err error) {
	source, client := in.facts(), o.session.client
	perm, denied := fs.FileMode(0o666), false
	if source.hasMode {
		perm = source.mode.Perm()
	}
	if !o.isDirect && o.end.atomic(c) {
		temporary := path.Join(path.Dir(o.name), c.token.Name(path.Base(o.name)))
		c.journal.noteBefore(c, temporary)
		private := perm
		if o.info != nil || c.options.Preserve {
			// until it gets its final permissions
			private = 0o600
		}
		lost := o.session.lost()
		o.file, err = client.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		c.tries.made = temporary
		if err == nil {
			o.temp = temporary
			return nil
		}
		if c.interrupted() {
			if !lost { // the server may have created it
				ctx, cancel := cleanupContext(c.ctx)
				defer cancel()
				o.removeTemporary(ctx, c, temporary)
			}
			return err
		}
		if err := o.end.fallBack(c, o.session.explainWrite(err, path.Dir(o.name))); err != nil {
			return err
		}
		denied = true
	}
	if c.options.Placement == PlaceAtomic {
		return &fs.PathError{Op: "replace", Path: o.name,
			Err: errors.New("it is not a regular file and can only be written in place")}
	}
	// If no target exists, nothing can be harmed, and the reason most likely lies in the directory:
	// opening the target itself yields an error with the name the user knows.
	o.file, err = o.openDirect(c, perm)
	if err == nil && denied {
		o.end.nameRefused(c, o.info == nil)
	}
	return o.session.explainWrite(err, path.Dir(o.name))
}

// openDirect opens the target itself. Version 3 has no flag that stops OPEN from following links
// (draft-ietf-secsh-filexfer-02, section 6.3), so between LSTAT and OPEN another user on the host
// could still put a link in the file's place; the source cannot.
func (o *remoteOutput) openDirect(c *fileCopy, perm fs.FileMode) (*usftp.File, error) {
	client, flags := o.session.client, os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	if c.entry == nil {
		return client.OpenFile(o.name, flags, perm)
	}
	info, err := client.Lstat(o.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		flags |= os.O_EXCL
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		if err := client.Remove(o.name); err != nil {
			return nil, err
		}
		flags |= os.O_EXCL
	case !info.Mode().IsRegular():
		return nil, inTheWay(o.name, info.Mode())
	}
	return client.OpenFile(o.name, flags, perm)
}

// left reports whether an earlier run for this target may have left a file of this name.
func (o *remoteOutput) left(name string) bool {
	return path.Dir(name) == path.Dir(o.name) &&
		strings.HasPrefix(path.Base(name), localfs.TempPrefix(path.Base(o.name)))
}

func (o *remoteOutput) discard(name string) error { return o.session.client.Remove(name) }

// resume opens what an earlier run left, and proves it by the host's hash or by reading back its
// end.
func (o *remoteOutput) resume(c *fileCopy, in input, m *mark) (int64, error) {
	f, err := o.session.client.OpenFile(m.Temporary, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, err
	} else if err != nil {
		return 0, fmt.Errorf("it cannot be opened: %s", plain(err))
	}
	if err := o.prove(c, f, in, m); err != nil {
		f.Close()
		return 0, errors.New(plain(err))
	}
	o.file, o.temp, c.tries.made = f, m.Temporary, m.Temporary
	_, err = f.Seek(m.Bytes, io.SeekStart)
	return m.Bytes, err
}

// prove proves that the file holds the beginning of the source, and truncates the rest.
func (o *remoteOutput) prove(c *fileCopy, f *usftp.File, in input, m *mark) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() < m.Bytes {
		return errors.New("it is shorter than it was")
	}
	if info.Size() > m.Bytes {
		if err := f.Truncate(m.Bytes); err != nil {
			return fmt.Errorf("it cannot be cut to what is known: %s", plain(err))
		}
	}
	if same, told := o.session.begins(f, in.contents(), m.Bytes); told {
		if !same {
			return errDiffers
		}
		return nil
	}
	length := int64(tail)
	switch {
	case m == c.journal.left:
		length = retriedTail
	case !m.Synced:
		length = unsyncedTail
	}
	off := max(0, m.Bytes-length)
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return err
	}
	_, err = f.WriteTo(&comparer{at: in.contents(), size: m.Bytes, off: off})
	return err
}

// fill copies the contents, over several handles where that helps.
func (o *remoteOutput) fill(c *fileCopy, in input) error {
	dir := path.Dir(o.name)
	if c.isSmall() {
		done, err := o.fillSmall(c, in)
		if done || err != nil {
			return o.session.explainWrite(err, dir)
		}
		c.flags.large = true
		if err := in.ready(c); err != nil {
			return ofSource(err)
		}
		c.sized(in)
	}
	c.hashing.start(c, in.reopen(c))
	n, err := o.send(c, in)
	c.result.Bytes = c.result.Resumed + n
	return o.session.explainWrite(err, dir)
}

func (o *remoteOutput) send(c *fileCopy, in input) (int64, error) {
	if n, done, err := o.sendDelta(c, in); done || err != nil {
		return n, err
	}
	f, resumed := o.file, c.result.Resumed
	defer c.watch(func() int64 { return resumed + f.Progress() })()
	if n, done, err := in.copyOn(c, f); done {
		return n, err
	}
	source := in.facts()
	if s := findHoles(c, in); s != nil {
		return o.sendSparse(c, s)
	}
	if !source.regular() || !o.session.worthStriping(c, source.size-resumed, false) {
		return o.session.judge(c, f, func() (int64, int, error) {
			n, err := f.ReadFrom(c.hashing.pipe.reader(c.limiter.reader(in.contents()), resumed))
			return n, 1, err
		})
	}
	s := o.session.stripe(c, f, os.O_WRONLY, resumed, source.size)
	o.striper = s // until seal
	n, err := o.session.judge(c, f, func() (int64, int, error) {
		n, err := s.stripes.ReadFromAt(c.hashing.pipe.readerAt(in.contents()))
		return n, 1 + s.count(), err
	})
	c.result.Stripes = s.stripes.Joined()
	return n, err
}

// fillSmall reads, writes, finishes and closes a small file. done is false if the file is no longer
// as listed.
func (o *remoteOutput) fillSmall(c *fileCopy, in input) (done bool, err error) {
	size, memory := c.entry.facts.size, c.tree.budget.memory
	memory.take(size)
	defer memory.give(size)
	wait, err := o.startSmall(c, in)
	if err != nil || wait == nil {
		return false, err
	}
	notSet, err := wait()
	c.freeHandle()
	if err != nil {
		return true, err
	}
	o.sealed = true
	c.result.Bytes = size
	if notSet != nil && (c.options.Preserve || c.options.Owners) {
		return true, notSet
	}
	return true, c.limiter.wait(int(size))
}

// startSmall reads a small file and starts writing it. It frees the memory for that before it
// returns, since the client holds what is in flight. wait is nil if the file is no longer as
// listed.
func (o *remoteOutput) startSmall(c *fileCopy, in input) (wait func() (notSet, err error), err error) {
	size := int(c.entry.facts.size)
	data, release := c.tree.budget.buffers.get(size + 1)
	defer release()
	if same, err := in.whole(c, data); err != nil || !same {
		return nil, ofSource(err)
	}
	set, err := o.attrs(c, in)
	if err != nil {
		return nil, err
	}
	c.hashing.small(c, data[:size])
	return private.OfFile(o.file).StartWriteClose(data[:size], set), nil
}

// attrs returns the attributes to set on the target.
func (o *remoteOutput) attrs(c *fileCopy, in input) (set usftp.NewAttrs, err error) {
	source := in.facts()
	atime, mtime := source.times()
	seconds := mtime.Unix()
	if source.hasTimes && (c.options.Preserve ||
		c.entry != nil && seconds >= 0 && seconds <= math.MaxUint32) {
		set.SetTimes, set.Atime, set.Mtime = true, atime, mtime
	}
	if c.options.Preserve && source.hasMode {
		// without setuid and setgid: the copy would run as the user who made it
		set.SetMode, set.Mode = true, source.mode.Perm()
	} else if o.info != nil && o.temp != "" {
		set.SetMode, set.Mode = true, o.keptMode(c)
	}
	err = c.options.chown(source.owner, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		// its new owner may never have agreed to that
		set.Mode &^= fs.ModeSetuid | fs.ModeSetgid
		return nil
	})
	return set, err
}

// keptMode returns a replaced file's mode for the new one. The setuid and setgid bits stay only if
// owner and group do.
func (o *remoteOutput) keptMode(c *fileCopy) fs.FileMode {
	mode := o.info.Mode()
	if mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		return mode
	}
	old, _ := o.info.Sys().(*usftp.FileStat)
	fresh := new(usftp.FileStat)
	if info, err := o.file.Stat(); err == nil {
		fresh = info.Sys().(*usftp.FileStat)
	}
	known := old != nil && old.HasOwner() && fresh.HasOwner()
	kept := mode
	if !known || old.UID != fresh.UID {
		kept &^= fs.ModeSetuid
	}
	if !known || old.GID != fresh.GID {
		kept &^= fs.ModeSetgid
	}
	if kept != mode {
		c.note("the new file has another owner than the one it replaces, and so not its setuid and setgid bits")
	}
	return kept
}

// seal proves that the file is whole if several handles wrote it, sets its attributes, and closes
// it. On a host that works in order everything is sent at once and takes one round trip, in which
// the other handles are closed too.
func (o *remoteOutput) seal(c *fileCopy, in input) error {
	if o.sealed {
		return nil
	}
	var steps []step
	if s := o.striper; s != nil {
		// first, since each connection answers in an order of its own
		if err := s.prove(); err != nil {
			return err
		}
		steps = append(steps, s.part)
		o.striper = nil
	}
	set, err := o.attrs(c, in)
	if err != nil {
		return err
	}
	f := o.file
	if set != (usftp.NewAttrs{}) {
		steps = append(steps, func() func() error {
			given := waits(c.ctx, f.Async().SetAttrs(set))
			return func() error { return o.attrsRefused(c, given()) }
		})
	}
	if c.options.Sync || c.options.Verify && c.synced() {
		steps = append(steps, func() func() error { return waits(c.ctx, f.Async().Sync()) })
	}
	steps = append(steps, func() func() error {
		closed := waits(c.ctx, f.Async().Close())
		return func() error { return o.session.explainWrite(closed(), path.Dir(o.name)) }
	})
	return take(steps, private.OfClient(o.session.client).WorksInOrder())
}

// attrsRefused returns err unless the attributes are optional and were merely refused.
func (o *remoteOutput) attrsRefused(c *fileCopy, err error) error {
	if err == nil || c.options.Preserve || c.options.Owners || !refused(err) {
		return err
	}
	if o.info != nil {
		c.note("the server does not let the new file have the permissions of the one it replaces: " + err.Error())
	}
	return nil
}

// A step sends a request to the host and returns a function that waits for the answer.
type step func() (wait func() error)

// waits returns the second half of a step.
func waits[T any](ctx context.Context, asked *usftp.Pending[T]) func() error {
	return func() error {
		_, err := asked.WaitContext(ctx)
		return err
	}
}

// take runs the steps one after the other until one fails, or all at once. It returns the first
// error.
func take(steps []step, atOnce bool) (first error) {
	var waiting []func() error
	for _, ask := range steps {
		wait := ask()
		if atOnce {
			waiting = append(waiting, wait)
		} else if err := wait(); err != nil {
			return err
		}
	}
	for _, wait := range waiting {
		if err := wait(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// cut truncates what was written to the contiguous part. If the connection is lost the next run
// does that.
func (o *remoteOutput) cut(c *fileCopy, n int64) (ok, synced bool) {
	if o.session.lost() {
		return true, false
	}
	ctx, cancel := cleanupContext(c.ctx)
	defer cancel()
	f := o.file.WithContext(ctx)
	synced = f.Truncate(n) == nil && f.Sync() == nil
	f.Async().Close().WaitContext(ctx)
	return true, synced
}

// remove closes the file, and removes it if it is temporary.
func (o *remoteOutput) remove(c *fileCopy) {
	if o.file == nil {
		return
	}
	if o.temp != "" && o.session.lost() {
		c.result.LeftBehind = o.temp
		c.detail = fmt.Sprintf("%d bytes of it are left in %s", c.result.Bytes, c.shown(o.temp))
		return
	}
	ctx, cancel := cleanupContext(c.ctx)
	defer cancel()
	o.file.Async().Close().WaitContext(ctx)
	if o.temp != "" {
		o.removeTemporary(ctx, c, o.temp)
	}
}

// removeTemporary removes a useless temporary file, or reports that it is left.
func (o *remoteOutput) removeTemporary(ctx context.Context, c *fileCopy, temporary string) {
	if err := o.session.client.WithContext(ctx).Remove(temporary); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		c.result.LeftBehind = temporary
		c.detail = fmt.Sprintf("the temporary file %s could not be removed", c.shown(temporary))
	}
}

// placing is the last step of a copy to a host. If a lost connection swallows its replies, the next
// attempt finds out what was done before it does any of it again.
type placing struct {
	temporary string // complete, and a name that nobody else knows
	aside     string // the old file's name during the exchange; "" if it keeps its own
	size      int64
}

// commit gives the temporary file the target's name.
func (o *remoteOutput) commit(c *fileCopy, _ input) error {
	if o.temp == "" {
		return nil
	}
	if c.tries.placing == nil {
		c.tries.placing = &placing{temporary: o.temp, size: c.result.Bytes}
		// count it once: a server that loses everything when asked gets no endless attempts
		if !c.tries.arrived {
			c.tries.arrived = true
			o.session.conn.Arrived() // whatever becomes of the name
		}
	}
	err := c.tries.placing.rename(c, o)
	if err != nil && !refused(err) {
		c.journal.keep(c, false)
	}
	return err
}

// rename renames the temporary file, replacing an existing target.
func (p *placing) rename(c *fileCopy, o *remoteOutput) error {
	ctx, cancel := lateContext(c.ctx)
	defer cancel()
	client := o.session.client.WithContext(ctx)
	var err error
	switch {
	case client.HasPosixRename():
		err = client.PosixRename(p.temporary, o.name)
	case o.info == nil && p.aside == "":
		err = client.Rename(p.temporary, o.name)
	default:
		err = p.replace(c, o, client)
	}
	if err == nil {
		c.tries.placing = nil
		return nil
	}
	c.result.LeftBehind = p.temporary
	c.detail = "all of the data is in " + c.shown(p.temporary)
	if !refused(err) {
		c.detail += ", or has its name already"
	}
	if p.aside != "" {
		c.detail += "; the file that it replaces may be " + c.shown(p.aside)
	}
	if refused(err) {
		c.tries.placing = nil
		o.end.renameRefused(c, err, o.info == nil)
		c.detail += "; --inplace writes the target itself"
		if _, lookErr := client.Lstat(p.temporary); errors.Is(lookErr, fs.ErrNotExist) {
			c.result.LeftBehind = ""
			c.detail = fmt.Sprintf("all of the data was in %s, which is no more: look at what has the target's name", c.shown(p.temporary))
		}
	}
	return err
}

// replace stands in for posix-rename on servers without it: RENAME fails if the name exists
// (draft-ietf-secsh-filexfer-02, section 6.5), so the old file is moved aside until the new one is
// in place. It continues what an earlier attempt began.
func (p *placing) replace(c *fileCopy, o *remoteOutput, client *usftp.Client) error {
	stepped := false
	if p.aside == "" {
		p.aside = path.Join(path.Dir(o.name), c.token.OldName(path.Base(o.name)))
	} else if _, err := client.Lstat(p.aside); err == nil {
		stepped = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !stepped {
		err := client.Rename(o.name, p.aside)
		if refused(err) {
			p.aside = ""
		}
		if err != nil {
			return err
		}
	}
	if err := client.Rename(p.temporary, o.name); err != nil {
		if client.Rename(p.aside, o.name) == nil {
			p.aside = ""
		}
		return err
	}
	return p.removeAside(c, o, client)
}

// removeAside removes the replaced file.
func (p *placing) removeAside(c *fileCopy, o *remoteOutput, client *usftp.Client) error {
	if p.aside == "" {
		return nil
	}
	err := client.Remove(p.aside)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case o.session.lost() && o.session.conn.Renews():
		return err // the next attempt will look at it again
	}
	c.note(fmt.Sprintf("the file that was replaced could not be removed: it is %s", p.aside))
	return nil
}

// settle finds out how far a commit came whose connection was lost, and completes it. It returns
// false if the copy must be done again.
//
// If the temporary name is gone, the rename was done, since nobody else knows that name; the target
// must then have the right size.
func (o *remoteOutput) settle(c *fileCopy) (done bool, err error) {
	t, client := &c.tries, o.session.client
	if t.retried && t.made != "" && (t.placing == nil || t.placing.temporary != t.made) &&
		(c.journal.left == nil || c.journal.left.Temporary != t.made) {
		t.strays = append(t.strays, t.made)
		t.made = ""
	}
	p := t.placing
	if p == nil {
		return false, nil
	}
	left, err := client.Lstat(p.temporary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there, err := client.Lstat(o.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err != nil || there.Size() != p.size {
			t.placing = nil
			return false, nil
		}
		if err := p.removeAside(c, o, client); err != nil {
			return false, err
		}
		t.placing = nil
	case err != nil:
		return false, err
	case left.Size() != p.size:
		t.strays = append(t.strays, p.temporary)
		t.placing = nil
		return false, nil
	default:
		t.made = p.temporary
		err := p.rename(c, o)
		if refused(err) { // the old connection's request may have been executed only now
			return p.wasRenamed(c, o, err)
		}
		if err != nil {
			return false, err
		}
	}
	c.result.Bytes = p.size
	return true, nil
}

// wasRenamed checks whether a rename was refused because it had already been done.
func (p *placing) wasRenamed(c *fileCopy, o *remoteOutput, refusal error) (done bool, err error) {
	if _, err := o.session.client.Lstat(p.temporary); !errors.Is(err, fs.ErrNotExist) {
		return false, refusal
	}
	there, err := o.session.client.Lstat(o.name)
	if err != nil || there.Size() != p.size {
		return false, refusal
	}
	c.result, c.detail = Result{Target: o.name, Bytes: p.size}, ""
	return true, nil
}
