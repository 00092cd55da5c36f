package filecopy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/private"
)

// An output is the target file of one attempt: created under a temporary name or opened in place,
// filled, finished, and given its name.
type output struct {
	location
	files  endpoint.Files  // its directory; nil for a stream
	writer endpoint.Writer // nil if nothing is open, or for a stream
	pipe   io.Writer       // a stream's writer

	over     int64           // size of the old file that is written over in place; 0 if there is none
	private  bool            // only its owner can open it until it gets its permissions
	finished bool            // it was finished while it was filled
	whole    whole           // for a file that gets everything in one request
	given    *usftp.NewAttrs // attrs to check on the finished file; nil for most
}

// An output is of one of three kinds, which have the methods that only one kind needs.
type (
	onDisk   struct{ *output } // a file of this machine
	onHost   struct{ *output }
	streamed struct{ *output } // an io.Writer, a pipe or a device
)

// client returns the client for the directory of a file on a host.
func (o onHost) client() *usftp.Client { return o.files.(*endpoint.HostFiles).Client }

// host returns an open file on a host.
func (o onHost) host() *endpoint.HostWriter { return o.writer.(*endpoint.HostWriter) }

func (o *output) close() {
	if o.whole.budget != nil {
		o.whole.close()
	}
	if o.writer != nil {
		o.writer.Release()
	}
	if o.files != nil {
		o.files.Close()
	}
}

func (o *output) open(c *Copy, name string, flag int, perm fs.FileMode) (err error) {
	o.writer, err = o.files.Open(name, flag, perm)
	if err == nil && c.to != nil {
		c.slot.opened(false)
	}
	if c.to != nil && c.slot.tries == 0 && c.slot.crowded(err) { // or there is no room for a name
		err = o.explain(err)
	}
	return err
}

// explain adds details on why the file could not be created or written.
func (o *output) explain(err error) error {
	if err == nil || endpoint.IsOfSource(err) {
		return err
	}
	return o.files.Explain(err, o.name)
}

// rereads returns a function to read the stored file again or, if it is on a host, the source; nil
// if that is impossible.
func (o *output) rereads(c *Copy, in *input) reopen {
	switch {
	case c.to != nil:
		return in.reopen()
	case o.stream: // nothing of it is kept, or it is read by others
		return nil
	}
	return onDisk{o}.stored
}

// stored opens the file being written, or the existing target, on this machine.
func (o onDisk) stored() (endpoint.ReadAtCloser, error) {
	return o.files.(*endpoint.LocalFiles).OpenFile(o.written(), os.O_RDONLY, 0)
}

// verify compares the stored file with the copied data.
func (o *output) verify(c *Copy, in *input) error {
	if c.to != nil {
		return c.to.prover().verify(c, o.written(), nil, in.reopen())
	}
	return verifyHere(in, o.rereads(c, in))
}

// holds reports whether the host's file matches the hash of the other end; known is false if it
// cannot tell. Without a host that could hash, the file is copied again.
func (o *output) holds(c *Copy) (same, known bool) {
	switch {
	case c.to != nil:
		return c.to.prover().holds(c.hashing.digests, o.name, nil)
	case c.from != nil:
		return c.from.prover().holds(c.hashing.digests, c.Source, nil)
	}
	return false, true
}

// resume opens an interrupted copy's leftover and returns where to continue, or why it cannot.
func (o *output) resume(c *Copy, in *input, m *journal.Mark) (offset int64, why error) {
	temporary := c.Dst.Join(Above(c.Dst, o.name), c.Dst.Base(m.Temporary))
	if err := o.open(c, temporary, os.O_RDWR, 0); err != nil {
		return 0, fmt.Errorf("cannot be opened: %w", err)
	}
	if why = stillUpload(c, m); why == nil {
		offset, why = o.prove(c, in, m) // which may cut it
	}
	if why != nil {
		o.writer.Abandon(c.Ctx)
		return 0, why
	}
	o.private = m.Private
	if o.hidden = m.Hidden; !m.Hidden {
		o.temp, c.known.made = temporary, temporary
	}
	return offset, nil
}

// create creates the temporary file, or opens the target if it is to be written in place.
func (o *output) create(c *Copy, source *endpoint.Info) (err error) {
	if o.stream {
		return streamed{o}.start(c, source)
	}
	if c.to != nil && c.IsSmall() && (c.to.host.Helper != nil ||
		private.OfClient(c.to.client).PutsFiles()) &&
		(onHost{o}).goesWhole(c) && o.whole.begin(c, o) {
		return nil
	}
	perm, denied := fs.FileMode(0o666), false
	if source.HasMode {
		perm = c.Options.Perm(source)
	}
	if o.hides(c) {
		// With EXCL it follows no link, and replaces nothing created since. If it is refused, the server
		// may not know yet that the connection over which the file was sent is lost.
		err = o.open(c, o.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if o.hidden = err == nil; o.hidden {
			return nil
		}
		if c.slot.crowded(err) || c.interrupted() || sharesHandle(err) {
			return err
		}
	}
	if !o.direct && o.tries(c) {
		temporary := c.Dst.Join(Above(c.Dst, o.name), c.Token.Name(c.Dst.Base(o.name)))
		if !c.IsSmall() {
			c.journal.noteBefore(c, temporary)
		}
		lost := c.to.lost()
		err = o.open(c, temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, o.until(c, source, perm))
		c.known.made = temporary
		if err == nil {
			o.temp = temporary
			return nil
		}
		if c.slot.crowded(err) { // that says nothing about the name
			c.slot.named = true
			return err
		}
		if c.interrupted() || sharesHandle(err) {
			if !lost { // the server may have created it
				ctx, cancel := c.Dst.Cleanup(c.Ctx)
				defer cancel()
				removeTemporary(ctx, c, o.files, temporary)
			}
			return err
		}
		if err := o.fallBack(c, o.explain(err)); err != nil {
			return err
		}
		c.slot.inVain(err)
		denied = true
	} else if c.slot.named { // another file has found that the names are refused
		c.slot.startOver()
	}
	if c.Options.Placement == PlaceAtomic {
		return o.notAtomic()
	}
	// If no target exists, nothing can be harmed, and the reason most likely lies in the directory:
	// opening the target itself yields an error with the name the user knows.
	if err = o.openInPlace(c, source, perm); err == nil && denied {
		o.noteNameRefused(c)
	}
	return o.explain(err)
}

// hides reports whether to write a target without a temporary name, since the host shows a new file
// when it is closed, and keeps the part received if it never is; see docs/uploads.md. A file that
// replaces another could not be continued; a file proved by its hash after it was closed needs a
// name for that.
func (o *output) hides(c *Copy) bool {
	return c.to != nil && o.info == nil && !o.untold && !o.link && !o.direct && o.tries(c) &&
		!c.verifies() && c.Options.List == nil && private.OfClient(c.to.client).KeepsUploads()
}

// stillUpload fails if the file just opened to be continued may be visible to everybody: it was
// completed, or another was created.
func stillUpload(c *Copy, m *journal.Mark) error {
	if !m.Hidden {
		return nil
	}
	_, err := private.OfClient(c.to.client).Upload(m.Temporary)
	return err
}

// until returns the permissions of a temporary file until it gets its final ones.
func (o *output) until(c *Copy, source *endpoint.Info, perm fs.FileMode) fs.FileMode {
	switch noModes := o.quirks.NoModes.Load(); {
	case !o.setsMode(c, source):
	case !noModes:
		o.private = true
		return 0o600
	case !c.Options.PreservesMode(source):
		return o.info.Mode().Perm()
	}
	return perm
}

// fill copies the contents.
func (o *output) fill(c *Copy, in *input) error {
	switch {
	case c.to != nil:
		return onHost{o}.upload(c, in)
	case o.stream:
		return streamed{o}.pour(c, in)
	}
	file := o.writer.(*endpoint.LocalWriter)
	file.Sparse, file.Over = c.Options.Sparse, o.over > 0
	to := sink{Writer: file.File, file: file, reread: onDisk{o}.stored}
	if o.temp != "" && o.info != nil {
		to.old = func() (*os.File, error) {
			return o.files.(*endpoint.LocalFiles).OpenFile(o.name, os.O_RDONLY, 0)
		}
	}
	n, err := pour(in, to)
	c.Result.Bytes = c.Result.Resumed + n
	return err
}

// upload copies the contents to a host, over several handles where that helps.
func (o onHost) upload(c *Copy, in *input) error {
	if o.whole.budget != nil {
		o.finished = true
		return o.whole.load(c, in)
	}
	if c.IsSmall() {
		// otherwise it has to be truncated or flushed
		if o.over <= c.Listed.Size && !c.Options.Sync && !(finisher{o.output, c}).early() {
			if o.hidden { // CLOSE gives it its name
				if err := c.MayCommit(); err != nil {
					return err
				}
			}
			done, err := o.fillSmall(c, in)
			if done || err != nil {
				return o.explain(err)
			}
		}
		c.known.large = true
		if err := in.ready(); err != nil {
			return err
		}
	}
	if c.hashes() {
		c.hashing.start(c, in.reopen())
	}
	n, err := o.send(c, in)
	c.Result.Bytes = c.Result.Resumed + n
	return o.explain(err)
}

func (o onHost) send(c *Copy, in *input) (int64, error) {
	if o.info != nil && o.temp != "" {
		if n, done, err := o.sendDelta(c, in); done || err != nil {
			return n, err
		}
	}
	f, resumed := o.host().File, c.Result.Resumed
	defer c.watch(func() int64 { return resumed + f.Progress() })()
	if n, done, err := in.copyOn(f); done {
		return n, err
	}
	source := in.info()
	in.sends = true
	if local, ok := in.own().(*endpoint.LocalFile); ok {
		if s := findHoles(c, in, local); s != nil {
			return o.sendSparse(c, s)
		}
	}
	// until data lies beyond the old size, nothing shows whether handles see each other's data
	if !source.IsRegular() || o.over >= source.Size && o.over > 0 ||
		!c.to.worthStriping(c, source.Size-max(resumed, o.over), false) {
		return c.to.judge(c, f, nil, func() (int64, error) { return f.ReadFrom(in) })
	}
	s := c.to.stripe(c, f,
		endpoint.Striping{Flag: os.O_WRONLY, From: resumed, Size: source.Size, Over: o.over})
	o.host().Striper = s
	return c.to.judge(c, f, s, func() (int64, error) { return s.ReadFromAt(in) })
}

// fillSmall reads, writes, finishes and closes a small file. done is false if the file is no longer
// as listed.
func (o onHost) fillSmall(c *Copy, in *input) (done bool, err error) {
	size, memory := c.Listed.Size, c.Budget.memory
	memory.take(size)
	defer memory.give(size)
	wait, err := o.startSmall(c, in)
	if err != nil || wait == nil {
		return false, err
	}
	notSet, err := wait()
	c.slot.free() // not before: OPENs overtake the data that CLOSE follows
	if err == nil && notSet != nil {
		err = o.smallRefused(c, notSet, in.info())
	}
	if err == nil {
		err = finisher{o.output, c}.proved()
	}
	if err != nil {
		return true, err
	}
	o.finished = true
	c.Result.Bytes = size
	return true, c.Limiter.Wait(int(size))
}

// smallRefused sets a small file's attributes by its path after they were refused. It is not
// inlined, to keep the stacks of thousands of files small.
//
//go:noinline
func (o onHost) smallRefused(c *Copy, refusal error, source *endpoint.Info) error {
	if !endpoint.Refused(refusal) {
		if c.Options.Preserve || c.Options.Owners {
			return refusal
		}
		return nil
	}
	set, err := finisher{o.output, c}.attrs(source)
	if err != nil {
		return err
	}
	f := endpoint.Finish{Set: set, Own: o.own()}
	return finisher{o.output, c}.told(o.host().SetByPath(&f, refusal))
}

// startSmall reads a small file and starts writing it. It frees the file's memory before it
// returns, since the client holds the data in flight. wait is nil if the file is no longer as
// listed.
func (o onHost) startSmall(c *Copy, in *input) (wait func() (notSet, err error),
	err error) {
	if same, err := in.load(); err != nil || !same {
		return nil, err
	}
	defer in.small.release()
	set, err := finisher{o.output, c}.attrs(in.info())
	if err != nil {
		return nil, err
	}
	finisher{o.output, c}.looks(set)
	if c.hashes() {
		c.hashing.small(c, in.small.data)
	}
	return private.OfFile(o.host().File).StartWriteClose(in.small.data, set), nil
}

// finalize finishes the file before it is verified. A file on this machine gets its attrs only with
// its name: they may deny reading, and reading changes its times.
func (o *output) finalize(c *Copy, in *input) error {
	switch {
	case c.to != nil && !o.finished:
		return finisher{o, c}.finish(in.info())
	case c.to == nil && o.over > 0:
		return o.writer.(*endpoint.LocalWriter).Truncate(c.Result.Bytes)
	}
	return nil
}

// A finisher gives the written file everything but its contents.
type finisher struct {
	*output
	c *Copy
}

// errPrivate reports that a file would stay readable for its owner alone.
var errPrivate = errors.New("the permissions of a file are not changed")

// finish finishes the file and closes it.
func (o finisher) finish(source *endpoint.Info) (err error) {
	f := endpoint.Finish{Truncate: o.c.Result.Bytes < o.over, Size: o.c.Result.Bytes, Own: o.own(),
		Shows: o.hidden,
		Early: o.early(),
		Flush: o.c.Options.Sync || o.c.Options.Verify && o.c.to != nil && o.c.to.prover().syncs(o.c)}
	if f.Set, err = o.attrs(source); err != nil {
		return err
	}
	o.looks(f.Set)
	done, err := o.writer.Finish(o.c.Ctx, &f)
	if err = o.explain(err); err == nil {
		err = o.told(done)
	}
	if err == nil {
		err = o.proved()
	}
	if err == nil && o.c.to == nil {
		err = o.complete()
	}
	return err
}

// early reports whether the data must be on the disk before the file has its name and its time.
// After a power failure, a file that was written from its beginning is too short, so that the next
// run copies it again. One that had its size before its data would look complete. Of several handles
// one may wait for a slow connection while the others go on to the end.
func (o finisher) early() bool {
	if o.over == 0 && !o.c.known.delta && o.c.Result.Stripes == 0 {
		return false
	}
	return o.c.to == nil || o.c.to.flushes()
}

// complete returns an error if a file of this machine is shorter than what was written to it: a file
// system that is another program's need not have told of a write that failed.
func (o finisher) complete() error {
	is, err := o.files.Lstat(o.written())
	if size := o.c.Result.Bytes; err == nil && is.Mode().IsRegular() && is.Size() < size {
		return &fs.PathError{Op: "write", Path: o.written(), Err: fmt.Errorf(
			"the file system has %d of %d bytes, and reported no error", is.Size(), size)}
	}
	return nil // if it is gone, it cannot get its name
}

// attrs returns the attributes to set.
func (o finisher) attrs(source *endpoint.Info) (set usftp.NewAttrs, err error) {
	mtime := source.Mtime
	exists := endpoint.Nearest(mtime, o.c.Dst.Conn()).Unix() == mtime.Unix()
	if source.HasTimes && !o.c.Options.NoTimes &&
		(o.c.Options.Preserve || o.c.Listed != nil && exists) {
		set.SetTimes, set.Atime, set.Mtime = true, source.Atime, mtime
		if warning := o.c.Nearest(&set); warning != "" {
			o.c.Warn(warning)
		}
	}
	if err := o.c.Options.AddOwner(&set, source.Owner); err != nil {
		return set, err
	}
	if o.c.Options.PreservesMode(source) {
		set.SetMode, set.Mode = true, o.c.Options.Perm(source)
	} else if o.info != nil && o.temp != "" {
		set.SetMode, set.Mode = true, o.inherit()
		if set.SetOwner { // its new owner may never have agreed to that
			set.Mode &^= endpoint.RunsAs
		}
	}
	o.quirks.Settable(&set, false)
	return set, nil
}

// inherit gives the new file all it keeps of the old one but the mode, which it returns.
func (o finisher) inherit() fs.FileMode {
	mode, lost := o.files.Inherit(o.writer, o.name, o.info, o.c.Options.Owners)
	for _, why := range lost {
		o.c.Warn(why)
	}
	return mode
}

// told warns of attrs that the file did not get. Unless they were asked for, that is no error.
func (o finisher) told(done endpoint.Finished) error {
	say := func(string) {} // nobody asked for them
	if o.c.Options.Preserve || o.info != nil {
		say = o.c.Warn
	}
	o.c.Options.Tell(done.Unset, say)
	if done.Times && !o.c.Options.Preserve {
		return nil
	}
	return o.refused(done.NotSet)
}

// refused returns err unless the attributes are optional and were merely refused.
func (o finisher) refused(err error) error {
	if err == nil || o.c.Options.Preserve || o.c.Options.Owners || !endpoint.Refused(err) {
		return err
	}
	if o.info != nil {
		o.c.Warn("the new file cannot be given the permissions of the old one: " + err.Error())
	}
	return nil
}

// looks records the attrs that a file is given, to check them afterwards, once for each host.
// OpenSSH's server is trusted. Copies without requested attrs need no check, unless they replace a
// file that not everybody may read.
func (o finisher) looks(set usftp.NewAttrs) {
	if o.c.to != nil && (o.c.Options.Preserve || o.private) && set != (usftp.NewAttrs{}) &&
		!private.OfClient(onHost{o.output}.client()).WorksInOrder() && !o.quirks.Proved.Swap(true) {
		given := set // most files need none
		o.given = &given
	}
}

// proved checks a finished file. It returns errPrivate if the file was created before the host was
// known not to set modes, and can be copied again.
func (o finisher) proved() error {
	if o.given != nil {
		o.lookAtGiven()
	}
	if o.private && o.quirks.NoModes.Load() && !o.c.known.spent && !o.opensToAll() {
		return errPrivate
	}
	return nil
}

// opensToAll reports whether a file of this machine has become public all the same: where a file
// system sets no permissions, as on a memory card, all files have the same.
func (o finisher) opensToAll() bool {
	if o.c.to != nil {
		return false
	}
	is, err := o.files.Lstat(o.written())
	return err == nil && is.Mode().Perm()&0o077 != 0
}

// lookAtGiven checks whether a file has the attrs that were set.
func (o finisher) lookAtGiven() {
	set := *o.given
	o.given = nil
	unset := endpoint.Pretends(o.quirks, set, func() (endpoint.Info, error) {
		info, err := o.files.Lstat(o.written())
		if err != nil {
			return endpoint.Info{}, err
		}
		if !info.Mode().IsRegular() { // it is written through a link, or was replaced
			return endpoint.Info{}, endpoint.ErrNotRegular
		}
		return endpoint.OfStat(info.Sys().(*usftp.FileStat)), nil
	}, func(set usftp.NewAttrs) error {
		return endpoint.SetUnfollowed(onHost{o.output}.client(), o.written(), set, 0, true)
	})
	o.c.Options.Tell(unset, o.c.Warn)
}

// commit gives the copy its name. On this machine it finishes the file first.
func (o *output) commit(c *Copy, in *input) error {
	switch {
	case o.stream:
		return streamed{o}.flush(c)
	case c.to != nil:
		return onHost{o}.giveName(c, in)
	}
	if err := (finisher{o, c}).finish(in.info()); err != nil || o.temp == "" {
		return err
	}
	files := o.files.(*endpoint.LocalFiles)
	if err := files.Replace(o.temp, o.name); err != nil {
		notReplaced(o, c, files, err)
		return err
	}
	if dir := filepath.Dir(o.name); c.Listed == nil && files.Moved(dir) { // a tree's are left
		return &fs.PathError{Op: "write", Path: dir, Err: endpoint.ErrWentAlong}
	}
	if c.Options.Sync {
		return files.Flush()
	}
	return nil
}

// notReplaced says where the data is after this machine has refused a rename. It is not inlined, to
// keep the stacks of thousands of files small.
//
//go:noinline
func notReplaced(o *output, c *Copy, files *endpoint.LocalFiles, err error) {
	c.Result.LeftBehind = o.temp
	c.Result.Detail = "all of the data is in " + o.temp
	// most likely the directory was removed
	if _, lookErr := files.Lstat(o.temp); errors.Is(lookErr, fs.ErrNotExist) {
		c.Result.LeftBehind = ""
		c.Result.Detail = "all of the data was in " + o.temp + ", which is gone"
	} else if endpoint.CannotRename(err) || o.info == nil && errors.Is(err, fs.ErrPermission) {
		c.Result.Detail += c.Rules.InPlace
	}
}
