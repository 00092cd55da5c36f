package filecopy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

var (
	// ErrSourceChanged reports that the source was written to while it was read.
	ErrSourceChanged = errors.New("the source changed while it was copied")

	// ErrVerify reports that the stored file differs from the copied data.
	ErrVerify = errors.New("what was stored differs from the source")

	// ErrKept ends the copy of a file that is already up to date.
	ErrKept = errors.New("already exists")

	// ErrPanicked ends a run of which nothing is to be kept.
	ErrPanicked = errors.New("the Events function panicked")

	errSameFile = errors.New("source and target are the same file")

	errGone = errors.New("all of the data had arrived and is gone, and can be read only once")
)

func changedf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrSourceChanged}, args...)...)
}

// A Copy copies one file. It knows the file only from its request.
type Copy struct {
	Request
	ListName string // the file's name in lists
	Size     int64  // of the source, -1 if unknown
	Result   Result // of the current attempt, or the last one

	known known
	slot  slot // its share of the hosts' handles
	meter

	// of the current attempt, or the last one
	ends
	journal record
	hashing hashing
	delta   *delta // nil if the whole file is sent
}

// Start sets the file to copy. name is its name in lists.
func (c *Copy) Start(r *Request, name string) {
	c.Request, c.ListName, c.Size, c.Result.Target = *r, name, -1, r.Target
}

// A Result is the outcome of a file's copy.
type Result struct {
	Target         string
	Bytes, Resumed int64 // copied; of these, by earlier runs and attempts
	Reused         int64 // bytes taken from the old file
	Elapsed        time.Duration
	Stripes        int    // handles used besides the first
	InPlace        bool   // the target itself was written
	Bottleneck     string // see package bottleneck
	Hash           checksum.Hash
	Verified       Verification
	Origin         *Origin // with Options.RemoveSource
	Remains
}

// Verification says how a file was verified, if it was.
type Verification uint8

const (
	ByHash    Verification = iota + 1 // the host hashed what it stores
	ByReading                         // everything was read back
)

// Remains are an attempt's leftovers.
type Remains struct {
	LeftBehind string // a temporary file
	Detail     string // for the error: the state of the target
	Temporary  string // the target's last temporary name
	Resumable  bool   // a later run can continue
	Unsure     bool   // it may have left something behind
}

// An Origin is a source as it was when it was read.
type Origin struct {
	endpoint.Info
	Before bool // something had the target's name, or may have
}

// known is the state that attempts at one file pass on: each continues where the last one ended.
type known struct {
	detours
	progress
	evidence
	temporaries
	spent      bool           // no other attempt is possible: the data read or written is gone
	committing *commitState   // a commit that a lost connection cut off
	poured     *endpoint.Info // the source as it was when the Writer was given data
	delta      bool           // some of it came from the old file, so it must be verified
	device     device         // a target that is not a file
	origin     *Origin        // the source as read, if it is to be removed
}

// detours are the changes that the next attempt makes.
type detours struct {
	tried      [ways]uint8 // how often each way was tried
	large      bool        // it is no longer the small file that was listed
	notRenamed bool        // the host did not rename the temporary file to a free name
}

// progress is how far the attempts came.
type progress struct {
	began   bool  // one of them began to copy
	arrived bool  // all of it has arrived and was counted
	deadly  bool  // it has failed since it seems to end the connections
	given   int64 // bytes that a stream has got, which cannot be taken back
	refused int64 // WRITEs that the host had refused when the first byte was written
	found   int64 // where the first one to begin continued from; see Copy.Found
	ends    [2]pools.Progress
}

// evidence shows whether the source is still the same, and which data has been verified.
type evidence struct {
	racy   *racySource // for a source on a host
	prefix *prefixHash // hash of all data read, nil unless needed
	again  reread      // for verifying and checking
	sync   bool        // the last attempt lost its connection while verifying
}

// temporaries are the temporary files of the attempts at one file.
type temporaries struct {
	made   string   // the last attempt's
	strays []string // earlier attempts', on the host
	late   bool     // the host may yet make one of these, as a lost connection's last request
	stored *stored  // nil if the source can be read again
}

// addStray adds a temporary file that nothing will continue.
func (t *temporaries) addStray(name string) {
	if !slices.Contains(t.strays, name) {
		t.strays = append(t.strays, name)
	}
}

// Do makes attempts at the file until one succeeds or another would not help.
func (c *Copy) Do(attempt func(*Copy) error) error {
	defer func() {
		if c.journal.file != nil { // the user's code panicked
			c.journal.release(false)
		}
		c.Budget.passedAll(c)
	}()
	for {
		if err := attempt(c); err == nil || !c.again(err) {
			return c.conclude(err)
		}
		if c.known.stored != nil {
			c.known.stored.source(c)
		}
		c.slot.free() // until the next attempt may begin
	}
}

// conclude ends the copy after the last attempt. It is not inlined, to keep the stacks of thousands
// of files small.
//
//go:noinline
func (c *Copy) conclude(err error) error {
	j, t := &c.journal, &c.known
	if t.device.file != nil {
		t.device.close()
	}
	if j.asked {
		j.conclude(c, err)
	}
	c.Result.Elapsed = time.Since(c.Began)
	// these may stem from an earlier attempt, if this one only had to rename
	c.Result.Hash, c.Result.Verified = c.hashing.hash, c.hashing.verified
	c.Result.Origin = t.origin
	if errors.Is(err, os.ErrDeadlineExceeded) && c.Ctx.Err() != nil {
		err = context.Cause(c.Ctx) // see localfs.Interruptible
	}
	if t.stored != nil {
		dropStored(c, err)
	}
	c.Result.Resumable, c.Result.Temporary = j.resumable, cmp.Or(t.made, c.Result.LeftBehind)
	c.Result.Unsure = c.Result.Unsure || c.Result.LeftBehind != "" || len(t.strays) > 0 || t.late ||
		c.to.lost() && t.made != ""
	c.slot.inVain(err)
	c.slot.free()
	if t.deadly {
		err = &pools.DeadlyError{Err: err}
	}
	if err != nil {
		if t.given > 0 {
			c.Result.Bytes = t.given
			c.Result.Detail = fmt.Sprintf("%d bytes of it have been written", t.given)
		}
		if _, not := errors.AsType[unread](err); !not && c.Result.Detail == "" &&
			errors.Is(err, ErrSourceChanged) {
			c.Result.Detail = "transfer.Options.Changing accepts what is read up to the end"
		}
		if c.Options.List != nil {
			c.hashing.meetList(c)
		}
		return c.Why(err)
	}
	return nil
}

// Once makes one attempt: open, place, fill, verify, and commit or abandon.
func Once(c *Copy) error {
	defer c.ends.connect(c)()
	if c.to == c.from && c.to.oneHandle() {
		return errWithinHost
	}
	if s := c.main(); s != nil && c.Options.Verify {
		if err := Verifiable(s.client); err != nil {
			return err
		}
	}
	in, err := openInput(c)
	defer in.close()
	if err != nil {
		return err
	}
	out, err := c.Dst.place(c)
	if err != nil {
		return err
	}
	defer out.close()
	c.Result.Target = out.name
	if err := kept(c, in, out); err != nil {
		return err
	}
	if c.Repeats {
		if err := out.ofEarlierRun(c, in); err != nil {
			return err
		}
	}
	if err := out.apart(c, in); err != nil {
		return err
	}
	c.Started()
	c.reset()
	if c.to != nil {
		began := c.known.committing != nil
		done, err := finishCommit(c, onHost{out})
		if done {
			placed(c, in, out)
		} else if began && c.known.spent && err == nil {
			return errGone
		}
		if done || err != nil {
			return err
		}
	}
	if c.to == nil || !c.IsSmall() {
		if err := in.ready(); err != nil {
			return err
		}
	}
	if err := c.prepare(in, out); err != nil {
		return err
	}
	return c.move(in, out)
}

// OpenOnce makes one attempt, which only opens the source.
func OpenOnce(c *Copy) error {
	defer c.ends.connect(c)()
	in, err := openInput(c)
	if err != nil {
		return endpoint.OfSource(err)
	}
	in.close()
	return nil
}

// prepare continues an earlier run's or attempt's leftover, or starts over.
func (c *Copy) prepare(in *input, out *output) error {
	offset, small := int64(0), c.IsSmall()
	if !small || len(c.known.strays) > 0 { // small files start over
		var err error
		if offset, err = c.journal.begin(c, in, out); err != nil {
			return err
		}
	}
	c.startAt(offset)
	if offset == 0 {
		if err := out.create(c, in.info()); err != nil {
			return err
		}
	}
	if c.Result.Resumed > 0 {
		if _, err := in.Seek(c.Result.Resumed, io.SeekStart); err != nil {
			return err
		}
	}
	c.Result.InPlace = !out.atomic() && !(out.stream && out.info == nil)
	if !small {
		c.journal.mark, c.journal.earlier = newMark(in, out), false
	}
	return nil
}

// move copies the contents, verifies them, and gives the copy its name. It has one return: with one
// after each step it would take more stack, of each of thousands of files.
func (c *Copy) move(in *input, out *output) (err error) {
	moved := false
	defer func() {
		if err != nil || !moved { // !moved: the user's Read or Write panicked
			if c.hashes() {
				c.hashing.stop() // it reads from the files that are closed now
			}
			c.abandon(out, err)
		}
		if c.delta != nil {
			c.delta.close()
		}
	}()
	err = out.fill(c, in)
	moved = true
	if err == nil {
		c.settles()
		defer c.Finishing()()
	}
	if err == nil {
		err = accepted(c, endpoint.OfSource(in.unchanged(c.Result.Bytes, out.rereads(c, in))))
	}
	if err == nil && out.hidden { // CLOSE gives it its name
		err = c.MayCommit()
	}
	if err == nil {
		err = out.finalize(c, in)
	}
	if err == nil && doubtful(c) {
		err = errDoubtful
	}
	if err == nil && c.hashes() {
		err = c.hashing.finish(c)
	}
	if err == nil && c.verifies() {
		c.enters(Verifying)
		err = out.verify(c, in)
		c.settles()
	}
	if err == nil {
		err = c.MayCommit()
	}
	if c.Options.RemoveSource {
		c.known.origin = &Origin{*in.info(), out.info != nil || out.untold}
	}
	if err == nil && out.temp != "" && c.KeepsOld() {
		err = c.Exchange(func(freed bool) error {
			out.freed = freed
			return out.commit(c, in)
		})
	} else if err == nil {
		err = out.commit(c, in)
	}
	if err == nil {
		placed(c, in, out)
	}
	return err
}

// errDoubtful ends an attempt whose data may not all have been stored.
var errDoubtful = errors.New("the host refused data of another file meanwhile, as when its disk " +
	"is full, and may have acknowledged what it has not stored")

// doubtful reports whether the host has refused a WRITE of any file while this one was written, and
// may not have stored all of those before it that it acknowledged: if the disk was full, files that
// failed have made room since, and this one may have a hole. A file that took one WRITE would be too
// short.
func doubtful(c *Copy) bool {
	return c.to != nil && !c.IsSmall() && !c.verifies() &&
		private.OfClient(c.to.client).LosesWrites() &&
		c.Dst.Quirks().NotWritten.Load() != c.known.refused
}

// notWritten counts a WRITE that a host has refused, before anything makes room.
func notWritten(out *output, err error) {
	path, ok := errors.AsType[*fs.PathError](err)
	if ok && path.Op == "write" && !endpoint.IsOfSource(err) &&
		(endpoint.Refused(err) || errors.Is(err, private.ErrNotStored)) {
		out.quirks.NotWritten.Add(1)
	}
}

// placed does what remains once the copy has its name.
func placed(c *Copy, in *input, out *output) {
	if c.journal.stale != nil {
		c.journal.removeStale(c, out)
	}
	tellRunsAs(c, in, out)
}

// tellRunsAs warns that a copy lacks [endpoint.RunsAs], if it should have its source's mode. It is
// not inlined, to keep the stacks of thousands of files small.
//
//go:noinline
func tellRunsAs(c *Copy, in *input, out *output) {
	source := in.info()
	mode := source.Mode
	if c.Options.Chmod != nil {
		mode = c.Options.Chmod(mode)
	}
	if mode&endpoint.RunsAs != 0 && c.Options.PreservesMode(source) && !out.stream {
		c.Warn("the copy gets no setuid or setgid bit: it would run as the user who made it")
	}
}

// accepted returns err, or nil if the source changed and Options.Changing accepts that.
func accepted(c *Copy, err error) error {
	if !errors.Is(err, ErrSourceChanged) || !c.Options.Changing {
		return err
	}
	c.Warn(fmt.Sprintf("%v; the copy has the %d bytes that were read up to the end", err,
		c.Result.Bytes))
	return nil
}

// abandon ends a failed copy. After an interruption it truncates the temporary file to the
// contiguous part, so that a later run can continue; after any other failure it leaves nothing. A
// copy on this machine keeps nothing: proving a leftover would take as long as copying it.
func (c *Copy) abandon(out *output, err error) {
	if c.Result.LeftBehind != "" || errors.Is(err, errNotRenamed) {
		return // the file is complete and only lacks its name, or was removed
	}
	at, w := &out.location, out.writer
	if w == nil {
		return
	}
	notWritten(out, err)
	ctx, cancel := c.Dst.Cleanup(c.Ctx)
	defer cancel()
	if !at.atomic() {
		c.Result.Detail = "the target was written in place and is not complete"
		if errors.Is(err, errTouched) && at.info != nil {
			c.Result.Detail = "the target was written in place; it may be the source itself, under " +
				"another name"
		}
		w.Abandon(ctx)
		return
	}
	lost, synced := c.to.lost(), false
	if lost && doubtful(c) && c.journal.mark != nil {
		c.journal.noteBefore(c, at.temp) // there is nothing to continue
	}
	keeps := c.main() != nil && c.interrupted() && c.Result.Bytes > 0 && !notResumable(c.Ctx, err) &&
		c.journal.mayContinue(c)
	if keeps && !lost { // otherwise the next attempt or run must truncate it
		keeps, synced = w.Keep(ctx, c.Result.Bytes)
	}
	if keeps || lost {
		leavesPart(c, at.temp, c.Result.Bytes)
		if at.hidden {
			c.Result.Detail = fmt.Sprintf("the host keeps %d bytes of it, which nobody sees", c.Result.Bytes)
		}
		if keeps {
			c.journal.keep(c, synced)
		}
		return
	}
	if at.hidden { // the part that the host keeps is useless
		w.Keep(ctx, 0)
		return
	}
	w.Abandon(ctx)
	c.delta.close() // Windows does not remove open files
	err = removeTemporary(ctx, c, out.files, at.temp)
	if errors.Is(err, fs.ErrNotExist) && c.to != nil &&
		wentAlong(c.to.client.WithContext(ctx), at.temp) {
		c.Result.Detail = fmt.Sprintf("the temporary file was %s, whose directory was moved or removed",
			c.shown(at.temp))
		c.Result.Unsure = true // it may come back, as one whose file system was unmounted
	}
}

// wentAlong reports whether a temporary file is missing because its directory is: if that was
// moved, the file still exists.
func wentAlong(client *usftp.Client, temporary string) bool {
	dir, err := client.Stat(path.Dir(temporary))
	return err == nil && !dir.IsDir() || endpoint.IsAbsent(err)
}

// leavesPart tells that a temporary file stays, with the part of the data that is safe.
func leavesPart(c *Copy, temporary string, bytes int64) {
	c.Result.LeftBehind = temporary
	c.Result.Detail = fmt.Sprintf("%d bytes of it are left in %s", bytes, c.shown(temporary))
}

// removeTemporary removes a useless temporary file, or reports that it is left.
func removeTemporary(ctx context.Context, c *Copy, in endpoint.Files, temporary string) error {
	err := in.Remove(ctx, temporary)
	if endpoint.IgnoreMissing(err) != nil {
		c.Result.LeftBehind = temporary
		c.Result.Detail = fmt.Sprintf("the temporary file %s could not be removed", c.shown(temporary))
	} else if left := c.journal.left; left != nil && left.Temporary == temporary {
		c.journal.left = nil
	}
	return err
}

// startAt records where an attempt begins. Bytes from before this run do not count towards the
// rate.
func (c *Copy) startAt(offset int64) {
	c.Result.Resumed = offset
	if offset == 0 || !c.known.began {
		c.known.refused = c.Dst.Quirks().NotWritten.Load()
	}
	if offset == 0 {
		c.known.again = reread{}
		if p := c.known.prefix; p != nil {
			*p = prefixHash{}
			p.remember()
		}
	}
	if c.known.began {
		return
	}
	c.known.began, c.known.found = true, offset
	c.Resumed(offset)
}

// Found returns the offset from which the first attempt to begin continued.
func (c *Copy) Found() int64 { return c.known.found }

// A way is how an attempt differs from the one before it.
type way uint8

const (
	dense    way = iota // its holes are sent, since the host takes no file in parts
	entire              // all of it is sent, since a delta failed
	stepped             // it is sent in steps, since the host did not take it in one request
	emptied             // the old file is emptied first, since the host did not truncate it
	unnamed             // the target itself is written, since the host does not rename files
	public              // it is made with its final permissions
	prefixed            // all data read is hashed: it may be unchanged
	apart               // it starts over, since the host gave one handle to several files
	doubted             // it is verified, since the disk may have been full for a while
	ways
	sameWay = ways
)

// remedies say after which error a file is copied in another way, and how often.
var remedies = [ways]struct {
	after   []error
	unless  func(error) bool // nil if nothing speaks against it
	suits   func(*Copy) bool // nil for all files
	most    uint8
	note    string      // for the user
	prepare func(*Copy) // nil if there is nothing to do
}{
	dense: {after: []error{errParts}, most: 1, note: "its holes are sent too"},
	entire: {after: []error{errNoDelta}, unless: endpoint.NoRoom, most: 1, note: "all of it is copied",
		prepare: func(c *Copy) { c.known.delta = false }},
	stepped: {after: []error{errNotWhole}, most: 1}, // which finds out what is refused
	emptied: {after: []error{endpoint.ErrNotTruncated}, suits: rereadable, most: 1},
	unnamed: {after: []error{errNotRenamed}, most: 1},
	public:  {after: []error{errPrivate}, most: 1},
	prefixed: {after: []error{errTouched}, suits: func(c *Copy) bool { return c.to != nil },
		most: 1, prepare: func(c *Copy) { c.known.prefix = new(prefixHash) }},
	// part of it may be in another file, or another's in this one
	apart: {after: []error{usftp.ErrSharedHandle, usftp.ErrOneHandle}, suits: rereadable,
		most: pools.MostShared},
	doubted: {after: []error{errDoubtful}, suits: rereadable, most: 1},
}

// rereadable reports whether the source can be read again.
func rereadable(c *Copy) bool { return !c.known.spent }

// another returns the way to try after err, or sameWay.
func (d *detours) another(c *Copy, err error) way {
	for w := range remedies {
		r, tried := &remedies[w], &d.tried[w]
		fits := slices.ContainsFunc(r.after, func(is error) bool { return errors.Is(err, is) })
		if *tried == r.most || !fits || r.unless != nil && r.unless(err) ||
			r.suits != nil && !r.suits(c) {
			continue
		}
		if *tried++; r.note != "" {
			c.Note(err.Error() + ": " + r.note)
		}
		if r.prepare != nil {
			r.prepare(c)
		}
		return way(w)
	}
	return sameWay
}

// again prepares for another attempt after err, if one may succeed: in another way, once there is
// room for it, or over a new connection.
func (c *Copy) again(err error) bool {
	c.slot.closed()
	removed := true // the attempt's temporary file
	switch w := c.known.another(c, err); {
	case w != sameWay:
		removed = w != apart
	case c.slot.crowded(err):
		if !c.slot.makeRoom(c.Ctx, err, c.ends.hasOpen(endpoint.IsOfSource(err))) {
			return false
		}
	case (!c.known.spent || c.known.committing != nil) && c.ends.renew(c, err):
		removed = false
	default:
		return false
	}
	if removed {
		if c.known.made = ""; c.Result.LeftBehind != "" {
			c.Warn(c.Result.Detail)
		}
	}
	c.delta = nil
	return true
}

// reset forgets how the attempt before this one ended. If this one does not come so far, that is
// still the outcome. It is not inlined, to keep the stacks of thousands of files small.
//
//go:noinline
func (c *Copy) reset() {
	c.Result, c.journal.resumable = Result{Target: c.Result.Target}, false
}

// interrupted reports whether the copy ended because its context or a connection did: the data it
// has written may then be of use.
func (c *Copy) interrupted() bool { return c.Ctx.Err() != nil || c.lost() }

// notResumable reports whether the written data is useless to a later run.
func notResumable(ctx context.Context, err error) bool {
	return errors.Is(err, ErrSourceChanged) || sharesHandle(err) ||
		context.Cause(ctx) == ErrPanicked
}

// settles begins the phase in which the target finishes the copy.
func (c *Copy) settles() { c.enters(c.Settling()) }

// watch reports progress, counts it for reconnecting, and records it in the journal until stop is
// called.
func (c *Copy) watch(position func() int64) (stop func()) {
	stops := []func(){c.journal.markProgress(c, position), c.Report(position),
		c.known.racy.watch(&c.ends, position)}
	for i, s := range c.ends.all() {
		stops = append(stops, pools.OfConn(s.conn).Follow(&c.known.progress.ends[i], position))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// IsSmall reports whether the file is sent in one piece.
func (c *Copy) IsSmall() bool { return c.Small && !c.known.large }

// verifies reports whether the stored file is compared with the source.
func (c *Copy) verifies() bool {
	if c.Options.Verify || c.known.delta || c.known.tried[doubted] > 0 {
		return true
	}
	s := c.main()
	return c.Options.RemoveSource && s != nil && s.client.HasCheckFile()
}

// hashes reports whether anything is hashed.
func (c *Copy) hashes() bool { return c.Options.Hash != "" || c.verifies() }

// kept returns ErrKept if the target is already up to date, and no attempt may have put there what
// is. Another error says that it is not in order all the same.
func kept(c *Copy, in *input, out *output) error {
	before := out.info
	if before == nil || c.known.began || c.journal.isHalfway(c) {
		return nil
	}
	if c.Options.Update && c.Rules.Keeps &&
		before.Mode().IsRegular() && !isOlder(c, before, in.info()) {
		return cmp.Or(c.hashing.keptOther(c, out), ErrKept)
	}
	if c.Listed == nil || !c.Rules.Keeps || !c.Options.Resume ||
		!before.Mode().IsRegular() || c.Options.RemoveSource { // which has to be proved
		return nil
	}
	if sameSizeAndTime(c, before) && (!c.hashes() || c.hashing.keptSame(c, in, out)) {
		return ErrKept
	}
	return nil
}

// isOlder reports whether the target entry is older than the source, or may be. A host may show the
// source's own time as an earlier one.
func isOlder(c *Copy, before os.FileInfo, source *endpoint.Info) bool {
	mtime, have := source.Mtime, before.ModTime()
	if c.Src.Conn() != nil || c.Dst.Conn() != nil {
		mtime = mtime.Truncate(time.Second)
	}
	same := c.Dst.Conn() != nil && endpoint.Apart(have, endpoint.Nearest(mtime, c.Dst.Conn())) == 0
	return !source.HasTimes || have.Before(mtime) && !same
}

// sameSizeAndTime compares a file with its target as rsync does without --checksum. The target's
// time must be the source's to the precision of its file system, or of seconds on a host.
func sameSizeAndTime(c *Copy, before os.FileInfo) bool {
	f := c.Listed
	if to := c.Dst.Conn(); to != nil {
		return f.HasTimes && before.Size() == f.Size &&
			endpoint.Apart(before.ModTime(), endpoint.Nearest(f.Mtime, to)) == 0
	}
	return f.HasTimes && before.Size() == f.Size &&
		slices.ContainsFunc(granules, func(granule time.Duration) bool {
			return before.ModTime().Equal(endpoint.Nearest(f.Mtime, nil).Truncate(granule))
		})
}

// granules are the precisions of times in file systems: most, NTFS, old Unix ones, exFAT, and HFS+.
var granules = []time.Duration{1, 100, time.Microsecond, 10 * time.Millisecond, time.Second}

// NoDirectory is the Container of a single file. Methods that are not defined here are called only
// on directories.
type NoDirectory struct{ Container }

func (NoDirectory) BehindLink() bool { return false }
func (NoDirectory) MayCommit() error { return nil }
func (NoDirectory) KeepsOld() bool   { return false }
