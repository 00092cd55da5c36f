package usftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// Entries lists a directory as its entries arrive: closed Files with their attributes, in the
// server's order, without "." and "..". An error ends the listing and comes with a nil File, after
// all entries before it. A break closes the directory.
//
// It takes a round trip to open the directory and one for each packet of names (100 with OpenSSH);
// to servers that answer in order many requests for names are sent at once. One packet may hold
// about a million names: as many as fit in 96 MiB together with everything else that the client
// holds. A larger one ends the listing with a [*ProtocolError], and the connection stays usable.
// Entries listed without a type are looked up, all of a packet at the same time.
func (c *Client) Entries(dir string) iter.Seq2[*File, error] { return c.entries(dir, false) }

func (c *Client) entries(dir string, bare bool) iter.Seq2[*File, error] {
	return func(yield func(*File, error) bool) {
		l := c.list(dir)
		l.bare = bare
		defer l.close()
		for {
			f, err := l.next()
			if err == io.EOF || !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// ReadDir lists a directory: closed Files with their attributes, in the server's order, without "."
// and "..". After an error it returns the entries so far with the error. It fails after 20 million
// entries. See [Client.Entries] for its cost and for directories that need not be in memory.
func (c *Client) ReadDir(dir string) ([]*File, error) { return c.readDir(dir, mostEntries) }

func (c *Client) readDir(dir string, most int) ([]*File, error) {
	var files []*File
	for f, err := range c.Entries(dir) {
		if err == nil && len(files) == most {
			err = &fs.PathError{Op: "readdir", Path: dir, Err: errTooMuch}
		}
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Limits for servers that list without end: entries of one directory that are kept, and bytes of a
// path. No known file system has longer paths; the paths of directories that nest without end would
// fill the memory.
const (
	mostEntries = 20_000_000
	mostPath    = 32 << 10
)

// errTooMuch says that an operation gave up on a server that lists without end.
var errTooMuch = errors.New("the server lists more names than any file system holds")

// listPrefix returns the prefix that makes a path of a name listed in a directory.
func listPrefix(dir string) string {
	if dir == "" || dir == "." {
		return ""
	}
	return strings.TrimRight(dir, "/") + "/"
}

const (
	// mostListing limits the READDIRs in flight in one listing, and mostListed the bytes of names
	// they may bring, by the largest reply so far.
	mostListing = 64
	mostListed  = 4 << 20

	// mostStarted is the most READDIRs that a listing starts with.
	mostStarted = 16

	// mostEmpty replies without a name in a row end a listing, if it had any: some servers send
	// nothing else at its end.
	mostEmpty = 16
)

// listing is one directory being read, entry by entry.
type listing struct {
	session *session
	ctx     context.Context
	dir     string
	prefix  string
	bare    bool // names are enough

	handle  *conn.Handle
	queue   *conn.Queue
	call    *conn.Call // whose names are being taken
	names   wire.NameReader
	window  int // READDIRs that may be in flight
	out     int // in flight
	largest int // bytes of the largest reply
	empty   int // replies without a name in a row
	taken   int // replies
	ended   bool
	err     error // to be returned by next from now on
	cycle   cycle

	returned int     // entries
	last     string  // path of the last one
	overs    int     // how often it has started over
	skip     int     // entries returned before it started over
	alone    bool    // nothing else can be opened before it is closed
	held     []*File // entries read but not returned yet
}

func (c *Client) list(dir string) *listing {
	return &listing{session: c.session, ctx: c.ctx, dir: dir, prefix: listPrefix(dir)}
}

// mostHeld limits the entries of a directory that is read to its end before they are returned:
// some 400 MB.
const mostHeld = 1 << 20

// next returns the next entry, and io.EOF after the last. If only one handle can be open at a time,
// the directory is read to its end and closed first: the caller may open files between entries.
func (l *listing) next() (*File, error) {
	for len(l.held) == 0 {
		f, err := l.receive()
		switch {
		case errors.Is(err, ErrSharedHandle) && l.overs < mostOvers:
			*l = listing{session: l.session, ctx: l.ctx, dir: l.dir, prefix: l.prefix,
				bare: l.bare, returned: l.returned, last: l.last, overs: l.overs + 1, skip: l.returned}
		case l.alone && (f != nil || l.skip > 0):
			l.hold(f)
		case f == nil:
			return nil, err
		case l.bare || f.attrs.tells():
			return l.passOn(f), nil
		default:
			l.gather(f)
		}
		l.lookUp()
	}
	f := l.held[0]
	l.held = l.held[1:]
	return l.passOn(f), nil
}

// mostOvers limits how often a listing starts over. Once is enough, unless another connection makes
// the same discovery at the same time.
const mostOvers = 3

// passOn counts an entry that is returned.
func (l *listing) passOn(f *File) *File {
	l.returned++
	l.last = f.path
	return f
}

// hold receives the rest of a directory, without the entries returned before the listing started
// over.
func (l *listing) hold(f *File) {
	for f != nil {
		l.held = append(l.held, f)
		if len(l.held) > mostHeld {
			l.fail(errTooMuch)
		}
		f, _ = l.receive()
	}
	if skip := l.skip; skip > 0 {
		l.skip = 0
		switch {
		case len(l.held) < skip && l.err != io.EOF:
			l.held = nil
		case len(l.held) < skip || l.held[skip-1].path != l.last:
			l.held, l.overs = nil, mostOvers
			l.fail(ErrSharedHandle) // it has changed, or some of them were another directory's
		default:
			l.held = l.held[skip:]
		}
	}
}

// gather takes the rest of a packet.
func (l *listing) gather(f *File) {
	l.held = append(l.held, f)
	for len(l.held) < defaultBatch {
		f, err := l.entry()
		if err != nil {
			l.fail(err)
		}
		if f == nil {
			return
		}
		l.held = append(l.held, f)
	}
}

// lookUp looks up entries that were listed without a mode or a type: some servers send no attributes
// in a listing. An entry that cannot be looked up stays as listed, unless it is gone.
func (l *listing) lookUp() {
	if l.bare {
		return
	}
	client := privateClient{&Client{l.session, l.ctx}}
	var unknown, untyped []*File
	for _, f := range l.held {
		if !f.attrs.tells() {
			unknown = append(unknown, f)
		}
	}
	found := func(f *File, info fs.FileInfo, err error) {
		switch {
		case err == nil:
			if f.remember(info.Sys().(*FileStat)); !f.attrs.HasType() {
				untyped = append(untyped, f)
			}
		case errors.Is(err, fs.ErrNotExist):
			f.attrs.Mode = 0
		default:
			if err = client.fatal(err); err != nil {
				l.held = nil
				l.fail(err)
			}
		}
	}
	client.lookAll(unknown, found)
	if len(unknown) == 1 {
		return
	}
	for _, f := range slices.Clone(untyped) { // alone: too much may have been open at once
		if l.err == nil || l.err == io.EOF {
			info, err := client.Look(f.path)
			found(f, info, err)
		}
	}
}

// receive returns the next entry as it comes from the server.
func (l *listing) receive() (*File, error) {
	for l.err == nil {
		f, err := l.entry()
		if f != nil {
			return f, nil
		}
		if err == nil {
			err = l.more()
		}
		if err != nil {
			l.fail(err)
		}
	}
	return nil, l.err
}

// fail ends the listing.
func (l *listing) fail(err error) {
	l.close()
	l.err = err
	if _, named := err.(*fs.PathError); !named && err != io.EOF {
		l.err = &fs.PathError{Op: "readdir", Path: l.dir, Err: err}
	}
}

// close closes the directory and drops the replies to come.
func (l *listing) close() {
	l.err = cmp.Or(l.err, fs.ErrClosed)
	if l.call != nil {
		l.session.conn.Recycle(l.call)
		l.call = nil
	}
	if l.queue != nil {
		l.queue.Abandon()
		l.session.closeHandle(l.handle)
		l.queue = nil
	}
}

// more waits for the next reply.
func (l *listing) more() error {
	if l.queue == nil {
		handle, err := run(l.ctx, opendir(l.session, l.dir,
			func(call *conn.Call) (*conn.Handle, error) { return call.Handle, nil }))
		if err != nil {
			return err
		}
		handle.Dir = cmp.Or(l.dir, ".")
		l.handle, l.queue, l.window = handle, conn.NewQueue(), 1
		l.alone = l.session.conn.OneHandle()
		if l.session.listsAhead {
			// The second one brings the end of most directories. Where the last listing took more,
			// this one probably does, too.
			l.window = max(2, min(int(l.session.listed.Load()), mostStarted))
		}
	}
	if l.out == 0 {
		if l.ended {
			return l.end()
		}
		if err := l.ask(); err != nil {
			return err
		}
	}
	call, err := l.queue.Next(l.ctx)
	if call == nil || err != nil {
		return err
	}
	l.out--
	l.taken++
	l.call = call
	if err := l.take(); err != nil {
		return err
	}
	if l.session.listsAhead && l.taken > 1 { // most directories end with the second reply
		l.ask() // an error shows up again once these names have been taken
	}
	return nil
}

// end returns io.EOF after the last name, unless names may be missing: OpenSSH's server leaves out
// entries that it cannot lstat (process_readdir in sftp-server.c). In a directory that may be read
// but not searched these are all, even ".". In one whose path is long they are the names with which
// the path exceeds the limit of a system call.
func (l *listing) end() error {
	if l.session.inOrder && len(l.prefix)+longestName > longestPath {
		return errLongPath
	}
	if l.cycle.count > 0 {
		return io.EOF
	}
	_, err := run(l.ctx, l.session.stat("lstat", wire.TypeLstat, l.prefix+"."))
	status, refused := errors.AsType[*StatusError](err)
	switch {
	case err != nil && !refused:
		return err
	case errors.Is(err, fs.ErrPermission):
		return status
	}
	return io.EOF
}

// Linux's limits of a name (NAME_MAX) and of a path in a system call (PATH_MAX), in bytes.
const (
	longestName = 255
	longestPath = 4095
)

var errLongPath = errors.New("the path is so long that the server may have left names out; " +
	"start deeper in the tree")

// opendir opens a directory (draft-02, section 6.7).
func opendir[T any](s *session, dir string, result func(*conn.Call) (T, error)) operation[T] {
	op := ask(s, "opendir", dir, wire.TypeHandle,
		wire.PathRequest{Type: wire.TypeOpendir, Path: cmp.Or(dir, ".")}, result)
	op.call.Orphan = s.orphaned(0)
	return op
}

// ask sends as many READDIRs as may be in flight.
func (l *listing) ask() error {
	for !l.ended && l.out < l.window {
		call := l.session.handleCall(wire.TypeReaddir, l.handle, wire.TypeName)
		call.Done = l.queue
		if err := l.session.conn.Start(l.ctx, call); err != nil {
			return err
		}
		l.out++
	}
	return nil
}

// take examines a reply.
func (l *listing) take() error {
	call := l.call
	if call.Err != nil {
		return call.Err
	}
	if call.Type == wire.TypeStatus {
		if call.Status.Code != wire.EOF {
			return replyError(call)
		}
		if !l.ended {
			l.session.listed.Store(int32(l.taken))
		}
		l.ended = true // replies may overtake each other, so those in flight may hold names
		l.session.conn.Recycle(call)
		l.call = nil
		return nil
	}
	l.widen(len(call.Body))
	names, err := wire.NewNameReader(call.Body)
	if err != nil {
		return parse(err)
	}
	if names.Remaining() > 0 {
		l.empty = 0
	} else if l.empty++; l.empty == mostEmpty && l.cycle.count == 0 {
		return &ProtocolError{What: "the server sends empty replies instead of a listing"}
	} else if l.empty >= mostEmpty {
		l.ended = true
	}
	l.names = names
	return nil
}

// entry takes the next name of the current reply. nil and no error mean that it has no more.
func (l *listing) entry() (*File, error) {
	if l.call == nil {
		return nil, nil
	}
	for l.names.Remaining() > 0 {
		var attrs wire.Attrs
		name, err := l.names.NextEntry(&attrs)
		if err != nil {
			return nil, parse(err)
		}
		name, slash := bytes.CutSuffix(name, []byte("/")) // as some servers mark directories
		if l.cycle.repeats(name) {
			return nil, &ProtocolError{
				What: "the server starts a listing again instead of ending it"}
		}
		if len(name) == 1 && name[0] == '.' || len(name) == 2 && name[0] == '.' && name[1] == '.' {
			stat := newFileStat(&attrs)
			l.session.settle(&stat)
			continue
		}
		if !validName(name) {
			return nil, fmt.Errorf("server sent an invalid file name: %q", name)
		}
		if len(l.prefix)+len(name) > mostPath {
			return nil, fmt.Errorf("the server lists a path longer than %d bytes", mostPath)
		}
		f := l.listed(name, &attrs)
		if slash && !f.attrs.HasType() {
			f.attrs.Mode |= typeDir
		}
		return f, nil
	}
	l.session.conn.Recycle(l.call)
	l.call = nil
	return nil, nil
}

// widen allows one more READDIR in flight after each answer, if several may be sent at once and
// their replies fit.
func (l *listing) widen(size int) {
	if !l.session.listsAhead {
		return
	}
	l.largest = max(l.largest, size, 1)
	l.window = max(1, min(l.window+1, mostListing, mostListed/l.largest))
}

// validName reports whether a listed name can be an entry's: the path made from it must lie in the
// directory.
func validName(name []byte) bool {
	return len(name) > 0 && bytes.IndexByte(name, '/') < 0 && bytes.IndexByte(name, 0) < 0
}

// listed makes the File of an entry with one allocation, besides its name.
func (l *listing) listed(name []byte, attrs *wire.Attrs) *File {
	entry := &struct {
		File
		state fileState
	}{}
	entry.File = File{&entry.state, l.ctx}
	entry.state.client = l.session
	if l.session.options.names == nil { // one allocation
		entry.state.path = l.prefix + string(name)
	} else {
		entry.state.path = l.prefix + l.session.decodeListed(string(name))
	}
	stat := &entry.state.attrs
	*stat = newFileStat(attrs)
	if l.session.settle(stat); !stat.HasType() {
		stat.Mode |= typeOfLine(l.names.LongName(), name)
	}
	return &entry.File
}

// cycle detects a listing that starts again instead of ending, in constant memory: it remembers one
// name, and a later one each time the listing has doubled (after Brent, 1980). A directory that
// changes may list a name twice; one whose name comes back three times at the same distance is
// being listed again.
type cycle struct {
	name          []byte
	count, at     int // names so far; where name was seen last
	distance      int
	times, update int
}

func (c *cycle) repeats(name []byte) bool {
	c.count++
	if c.count > c.update {
		c.update = 2*c.update + 1
		c.name = append(c.name[:0], name...)
		c.at, c.distance, c.times = c.count, 0, 0
		return false
	}
	if !bytes.Equal(c.name, name) {
		return false
	}
	if distance := c.count - c.at; distance == c.distance {
		c.times++
	} else {
		c.distance, c.times = distance, 1
	}
	c.at = c.count
	return c.times == 3
}

// ReadDirLimit lists the entries of a directory that filter accepts, until filter says stop or the
// timeout has passed; 0 means no timeout, and a nil filter accepts all. After the timeout it
// returns the entries so far with an error matching [context.DeadlineExceeded].
func (c *Client) ReadDirLimit(dir string, timeout time.Duration,
	filter func(*File) (accept, stop bool)) ([]*File, error) {
	ctx := c.ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var files []*File
	for f, err := range c.WithContext(ctx).Entries(dir) {
		if err == nil && ctx.Err() != nil { // names that are at hand wait for nothing
			err = &fs.PathError{Op: "readdir", Path: dir, Err: context.Cause(ctx)}
		}
		if err != nil {
			return files, err
		}
		accept, stop := true, false
		if filter != nil {
			accept, stop = filter(f)
		}
		if accept {
			files = append(files, f.WithContext(c.ctx))
		}
		if stop {
			break
		}
	}
	return files, nil
}

// Glob returns the names that match a pattern, sorted, like [path/filepath.Glob] with the syntax of
// [path.Match]. Directories that the server refuses to list are ignored. Other errors are
// [path.ErrBadPattern], a listing that breaks off, and matching names of more than 256 MiB. A
// pattern without metacharacters takes one round trip; each directory in which names are matched
// takes a listing, and many are listed at once.
func (c *Client) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	names, err := c.glob(pattern, false, func(name string) (string, error) { return name, nil })
	slices.Sort(names)
	return names, err
}

// glob returns the names that match a pattern, with within only those that may be directories'. at
// returns a name's path on the server, or an error if nothing can have the name.
func (c *Client) glob(pattern string, within bool,
	at func(string) (string, error)) ([]string, error) {
	if !hasMeta(pattern) {
		full, err := at(pattern)
		if err != nil {
			return nil, nil
		}
		if _, err := c.Lstat(full); err != nil {
			return nil, c.fatal(err)
		}
		return []string{pattern}, nil
	}
	dir, last := path.Split(pattern)
	dirs := []string{globDir(dir)}
	if hasMeta(dirs[0]) {
		var err error
		if dirs, err = c.glob(dirs[0], true, at); err != nil {
			return nil, err
		}
	}
	found := make([][]string, len(dirs))
	errs := make([]error, len(dirs))
	var wg sync.WaitGroup
	turn, crowd := make(chan struct{}, mostGlobbed), c.newCrowd(mostGlobbed)
	var taken atomic.Int64
	for i, dir := range dirs {
		full, err := at(dir)
		if err != nil {
			continue
		}
		turn <- struct{}{}
		wg.Go(func() {
			listed := false
			err := crowd.list(func() (err error) {
				found[i], listed, err = c.matches(full, dir, last, within, &taken)
				return err
			})
			if listed || !refusal(err) {
				errs[i] = err
			}
			<-turn
		})
	}
	wg.Wait()
	return slices.Concat(found...), cmp.Or(errs...)
}

// mostGlobbed is the number of directories listed at once.
const mostGlobbed = 32

// mostGlobBytes limits the memory of matching names.
const mostGlobBytes = 256 << 20

// matches returns the names in a directory, full on the server, that match a pattern, and counts
// their bytes. listed reports whether there were any names.
func (c *Client) matches(full, dir, pattern string, within bool,
	taken *atomic.Int64) (names []string, listed bool, err error) {
	entries := 0
	for f, err := range c.entries(full, true) {
		if err != nil {
			return names, entries > 0, err
		}
		entries++
		if ok, _ := path.Match(pattern, f.BaseName()); ok && !(within && f.isPlain()) {
			name := path.Join(dir, f.BaseName())
			if strings.Contains(dir, "..") { // after a link it is not the directory before it
				name = dir + "/" + f.BaseName()
			}
			names = append(names, name)
			taken.Add(int64(len(name)))
		}
		if entries > mostEntries || taken.Load() > mostGlobBytes {
			return names, true, &fs.PathError{Op: "glob", Path: dir, Err: errTooMuch}
		}
	}
	return names, entries > 0, nil
}

// isPlain reports whether a listed name is certainly a regular file's. Some servers send
// permissions without a type.
func (f *File) isPlain() bool { return f.IsRegular() && f.FileStat().Mode&^0o7777 != 0 }

// fatal returns err if the connection or the context has ended, otherwise nil. A server's answer
// stands, although its connection may have ended since.
func (c *Client) fatal(err error) error {
	if !refusal(err) && (c.ctx.Err() != nil || c.conn.Err() != nil) {
		return err
	}
	return nil
}

// globDir returns the directory in which a pattern's last element is matched.
func globDir(dir string) string {
	switch dir {
	case "":
		return "."
	case "/":
		return dir
	}
	return strings.TrimRight(dir, "/")
}

// QuotePattern returns a pattern for [Client.Glob] that matches only name, by escaping
// metacharacters. Quote names from elsewhere, such as the server, before you make them part of a
// pattern.
func QuotePattern(name string) string {
	return metacharacters.Replace(name)
}

var metacharacters = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[\`) }
