package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/pool"
)

// A fileCopy copies one file, alone or as part of a tree.
type fileCopy struct {
	*job
	entry  *entry // of the tree, nil for a single file
	source string // path
	name   string // of the copy, below what was named as the target; lists know it by that
	began  time.Time
	size   int64 // of the source, -1 if not known
	result Result
	detail string // for the error: what became of the target

	activity *activity // of a large file in a tree, nil before it has any

	ends    // the connections of this try
	journal journal
	hashing hashing
	delta   *delta // of this try, nil if all of it travels
	tries   tries

	mu    sync.Mutex // guards flags.started
	flags flags
}

// flags are what one file has been through.
type flags struct {
	started bool // it was reported
	large   bool // it is no longer the small file that was listed
	handle  bool // it holds one of the tree's handles
	whole   bool // all of it travels, since a delta has failed
	dense   bool // its holes are sent, since the host takes no file in parts
}

// tries are what the tries for one file have in common: each goes on from what the last one left.
type tries struct {
	retried  bool     // this is not the first one
	once     bool     // there can be no other: what was read or written is gone
	made     string   // the temporary file of the last one
	strays   []string // temporary files of earlier ones on the host
	placing  *placing // a commit that a lost connection has cut off
	arrived  bool     // all of it arrived, and was counted
	reached  int64    // how far the last one came
	found    int64    // what was there before the first
	poured   *facts   // the source of what a Writer was given
	delta    bool     // some of it came from the old file, so it must be verified
	progress [2]pool.Progress
	doubt    *doubt  // about a source on a host
	again    reread  // of what is verified or checked
	passed   *passed // all that was read, nil unless that is needed
	sync     bool    // the last one was lost while it was verified
}

// copy copies the file. The error is an *Error.
func (c *fileCopy) copy() error {
	defer c.journal.release(false) // in case the user's code panics
	c.size = -1
	var err error
	for {
		c.takeHandle()
		err = c.once(c)
		if errors.Is(err, errParts) && !c.flags.dense {
			c.note(errParts.Error() + ": its holes are sent too")
			c.flags.dense = true
			c.reset()
			continue
		}
		if errors.Is(err, errNoDelta) && !c.flags.whole {
			c.note(err.Error() + ": all of it is copied")
			c.flags.whole, c.tries.delta = true, false
			c.reset()
			continue
		}
		if errors.Is(err, errTouched) && c.to != nil && c.tries.passed == nil {
			c.tries.passed = new(passed) // its contents may be the same: the next try will know
			c.reset()
			continue
		}
		if err == nil || !c.retry(err) {
			break
		}
	}
	c.journal.release(err != nil && (c.journal.resumable || c.journal.left != nil || c.lost() ||
		c.result.LeftBehind != ""))
	if err != nil && c.journal.left != nil && !c.journal.resumable && c.journal.markName(c) == "" &&
		c.dst.dispose(c.journal.left.Temporary) {
		c.result.LeftBehind, c.detail = "", "" // it was for another try, and there will be none
	}
	c.hashing.stop()
	c.result.Elapsed = time.Since(c.began)
	// maybe by an earlier try, when this one only had to give it its name
	c.result.Hash, c.result.Verified = c.hashing.hash, c.hashing.verified
	if errors.Is(err, os.ErrDeadlineExceeded) && c.ctx.Err() != nil {
		err = context.Cause(c.ctx) // see localfs.Interruptible
	}
	if err != nil {
		c.hashing.meetList(c)
		return c.failure(c.why(err))
	}
	return nil
}

// copyOnce copies the file over the connections that there are: open, place, fill, verify, and commit or
// abandon.
func (c *fileCopy) copyOnce() error {
	defer c.connect()()
	if err := verifiable(c.main(), c.options.Verify); err != nil {
		return err
	}
	in, err := c.src.open(c)
	if err != nil {
		return ofSource(err)
	}
	defer in.close()
	c.sized(in)
	out, err := c.dst.place(c, in)
	if err != nil {
		return err
	}
	defer out.close()
	c.result.Target = out.path()
	if c.kept(in, out) {
		return errKept
	}
	if err := out.same(c, in); err != nil {
		return err
	}
	c.tellStarted()
	if done, err := out.settle(c); done || err != nil {
		return err
	}
	if !c.isSmall() {
		if err := in.ready(c); err != nil {
			return ofSource(err)
		}
		c.sized(in)
	}
	if err := c.begin(in, out); err != nil {
		return err
	}
	return c.move(in, out)
}

// begin continues from what an earlier run or try left, or starts over.
func (c *fileCopy) begin(in input, out output) error {
	if offset := c.journal.resume(c, in, out); offset > 0 {
		c.startAt(offset)
	} else {
		c.startAt(0)
		c.journal.findStale(c, out)
		c.journal.removeStrays(c, out)
		if err := out.create(c, in); err != nil {
			return err
		}
	}
	if c.result.Resumed > 0 {
		if _, err := in.contents().Seek(c.result.Resumed, io.SeekStart); err != nil {
			return ofSource(err)
		}
	}
	c.result.InPlace = !out.atomic()
	c.journal.mark = newMark(in, out)
	return nil
}

// move copies the contents, proves them, and gives the copy its name.
func (c *fileCopy) move(in input, out output) (err error) {
	moved := false
	defer func() {
		if err != nil || !moved { // not moved means that the user's Read or Write panicked
			c.abandon(out, err)
		}
	}()
	err = out.fill(c, in)
	moved = true
	if err == nil {
		err = ofSource(in.unchanged(c, c.result.Bytes, out.rereads(c, in)))
	}
	if err == nil {
		err = out.seal(c, in)
	}
	if err == nil {
		err = c.hashing.finish(c)
	}
	if err == nil && c.verifies() {
		err = out.verify(c, in)
	}
	if err == nil {
		err = out.commit(c, in)
	}
	if err == nil && c.journal.stale != "" {
		out.discard(c.journal.stale)
	}
	return err
}

// abandon ends a copy that has failed. What an interruption leaves is cut to what arrived without a
// gap, so that a later run can continue from there; after any other failure nothing is left. A copy
// on this machine keeps nothing: to prove what is there would take as long as copying it.
func (c *fileCopy) abandon(out output, err error) {
	if c.result.LeftBehind != "" { // all of it is there, and only its name is missing
		return
	}
	if !out.atomic() {
		c.detail = "the target was written in place and is not complete"
		out.remove(c)
		return
	}
	if c.main() != nil && c.interrupted() && c.result.Bytes > 0 && !c.worthless(err) &&
		c.mayContinue() {
		if ok, synced := out.cut(c, c.result.Bytes); ok {
			c.result.LeftBehind = out.stored()
			c.detail = fmt.Sprintf("%d bytes of it are left in %s", c.result.Bytes,
				c.shown(out.stored()))
			c.journal.keep(c, synced)
			return
		}
	}
	out.remove(c)
}

// mayContinue reports whether anybody could continue from what a try leaves: a later run, which finds
// it in the journal, or the next try of this one. Small files of a tree start over in any case.
func (c *fileCopy) mayContinue() bool {
	renews := slices.ContainsFunc(c.conns(), (*pool.Conn).Renews)
	return !c.isSmall() && c.provable() && (c.journal.markName(c) != "" || c.ctx.Err() == nil && renews)
}

// provable reports whether it can be told later that what a try leaves is the beginning of the
// source. What came from an old file is proved by a hash only.
func (c *fileCopy) provable() bool { return !c.tries.delta || c.main().client.HasCheckFile() }

// sized takes the size that the source says it has.
func (c *fileCopy) sized(in input) {
	if f := in.facts(); f.regular() {
		c.size = f.size
	}
}

// startAt notes where a try begins. What was there before this run has not travelled now and is no
// part of the rate.
func (c *fileCopy) startAt(offset int64) {
	c.result.Resumed = offset
	if offset == 0 {
		c.tries.again = reread{}
		if p := c.tries.passed; p.remembers() {
			*p = passed{}
			p.remember()
		}
	}
	if c.tries.retried {
		return
	}
	c.tries.found = offset
	if c.tree != nil {
		c.tree.counts.resumed.Add(offset)
	}
}

// connect chooses the connections of a try.
func (c *fileCopy) connect() (release func()) {
	from, to := c.src.conn(), c.dst.conn()
	c.to = c.newSession(to)
	if c.from = c.to; from != to {
		c.from = c.newSession(from)
	}
	leave := func() {}
	if s := c.main(); s != nil {
		leave = s.conn.Enter(!c.isSmall())
	}
	return func() {
		for _, s := range c.ends.all() {
			s.release()
		}
		leave()
	}
}

// newSession returns a host's connection, or one of its other sessions if many large files of a
// tree are under way.
func (c *fileCopy) newSession(conn *pool.Conn) *session {
	if conn == nil {
		return nil
	}
	host := conn.Host()
	s := &session{conn: conn, host: host, client: host.Client, release: func() {}}
	if c.tree != nil {
		s.trip = c.tree.budget.trip
	}
	if c.tree.spreads() && !c.isSmall() {
		var lent *usftp.Client
		if lent, s.release = host.Pool.Acquire(); lent != nil {
			s.client = lent.WithContext(c.ctx)
			s.host.Client = s.client
		}
	}
	return s
}

// retry reports whether a copy that has failed goes on over a new connection.
func (c *fileCopy) retry(err error) bool {
	if c.tries.once || !c.renew(err) {
		return false
	}
	c.tries.reached = c.result.Bytes
	c.tries.retried, c.journal.resumable = true, false
	c.reset()
	return true
}

// reset prepares for another try. It is not inlined, for the sake of the stacks of thousands of files.
//
//go:noinline
func (c *fileCopy) reset() {
	c.result, c.detail, c.delta = Result{Target: c.result.Target}, "", nil
}

// renew replaces the connections that were lost. It reports whether any was, and all could be.
func (c *fileCopy) renew(err error) (renewed bool) {
	for _, s := range c.ends.all() {
		if !s.lost() {
			continue
		}
		if !s.conn.Renew(s.client, err, func(a pool.Attempt) {
			c.tell(retried(a, c.doing()+" "+c.source, &Event{Size: c.size, Bytes: c.result.Bytes}))
		}) {
			return false
		}
		renewed = true
	}
	return renewed
}

// interrupted reports whether the copy ended because its context or a connection did: what it has
// written may be of use then.
func (c *fileCopy) interrupted() bool { return c.ctx.Err() != nil || c.lost() }

// worthless reports whether what was written is of no use to a later run.
func (c *fileCopy) worthless(err error) bool {
	return errors.Is(err, ErrSourceChanged) || context.Cause(c.ctx) == errListener
}

// takeHandle waits until a file of a tree may hold one of the server's handles, if it has none.
func (c *fileCopy) takeHandle() {
	if c.tree != nil && !c.flags.handle {
		c.tree.budget.handles.take(1)
		c.flags.handle = true
	}
}

// freeHandle notes that the file holds none of the server's handles any more.
func (c *fileCopy) freeHandle() {
	if c.flags.handle {
		c.flags.handle = false
		c.tree.budget.handles.give(1)
	}
}

// isSmall reports whether the file is one of a tree that travels in one piece.
func (c *fileCopy) isSmall() bool {
	return c.entry != nil && !c.flags.large && c.tree.isSmall(c.entry.facts.size)
}

// kept reports whether the file need not be copied.
func (c *fileCopy) kept(in input, out output) bool {
	before := out.before()
	if c.tree == nil || c.tree.compare == nil || before == nil || !before.Mode().IsRegular() {
		return false
	}
	return c.tree.compare(c, before) && (!c.hashes() || c.hashing.keptSame(c, in, out))
}

// sameSizeAndTime compares a file with its target like rsync without --checksum. SFTP's times are
// whole seconds.
func sameSizeAndTime(c *fileCopy, before os.FileInfo) bool {
	f := &c.entry.facts
	_, mtime := f.times()
	return f.hasTimes && before.Size() == f.size && before.ModTime().Unix() == mtime.Unix()
}

// placement decides whether a target is written under a temporary name and renamed, or in place. It
// remembers what the target's end refuses, so that thousands of files need not each find it out.
type placement struct{ quirks *pool.Quirks }

// atomic reports whether to try a temporary name, as far as is known of the end and of the
// directory. PlaceAtomic tries in any case.
func (p placement) atomic(c *fileCopy) bool {
	switch {
	case c.options.Placement == PlaceAtomic:
		return true
	case c.options.Placement == PlaceDirect, p.quirks.NoTemporary.Load(), p.quirks.NoRename.Load():
		return false
	}
	return c.entry == nil || !c.entry.dir.noTemporary.Load()
}

// fallBack reports whether a target may be written in place after its temporary file could not be
// created: returns nil, or the error to fail with, to which it adds what else there is to try.
func (p placement) fallBack(c *fileCopy, err error) error {
	if c.options.Placement != PlaceAtomic && nameRefused(err) {
		return nil
	}
	if c.options.Placement == PlaceAuto && !errors.Is(err, fs.ErrNotExist) &&
		!errors.Is(err, syscall.EROFS) {
		c.detail = "no temporary file can be created beside the target, which is untouched; --inplace writes the target itself"
	}
	return err
}

// nameRefused remembers that no temporary file could be created where the target itself could. A new
// target needed the same right, so it is the name that is refused; otherwise it may be only this
// directory that takes no new names.
func (p placement) nameRefused(c *fileCopy, isNew bool) {
	if isNew {
		p.quirks.NoTemporary.Store(true)
	} else if c.entry != nil {
		c.entry.dir.noTemporary.Store(true)
	}
	p.report(c, "no temporary file can be created beside the target: it is written in place")
}

// renameRefused remembers that a file could not get a name that nothing had. What is refused for a
// name that something has may be that file's own matter, and a full disk will refuse what is written
// in place too.
func (p placement) renameRefused(c *fileCopy, err error, isNew bool) {
	if !isNew || c.options.Placement == PlaceAtomic ||
		!nameRefused(err) && !errors.Is(err, errors.ErrUnsupported) {
		return
	}
	p.quirks.NoRename.Store(true)
	if c.entry != nil {
		p.report(c, "the host does not rename files: the following ones are written in place")
	}
}

// report tells something once for all files that it applies to.
func (p placement) report(c *fileCopy, why string) {
	if p.quirks.Reported.Swap(true) {
		return
	}
	if c.entry != nil {
		why += " (reported once for all files of the tree)"
	}
	c.note(why)
}
