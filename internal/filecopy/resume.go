package filecopy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// errUnprovable reports that a delta's leftover cannot be continued.
var errUnprovable = errors.New(
	"parts of it came from the old file, and the host does not hash it to prove that they are right")

const (
	// leastMarked is the size from which a file's progress is recorded while it is copied, so that
	// a killed process can be continued too.
	leastMarked = 8 << 20
	markEvery   = time.Second

	// tail is how much of an earlier run's data is read back and compared before continuing. A server
	// that went down may have lost the end of unsynced data.
	tail         = 1 << 20
	unsyncedTail = 16 << 20

	// retriedTail is for a copy that continues by itself after seconds. It is small, so that the
	// copy progresses even over a link that breaks every few seconds.
	retriedTail = 256 << 10
)

// A record is one file's part in the journal. As long as it holds the lock on its mark, no other
// run of the same copy continues the file that this one is writing.
type record struct {
	mark      *journal.Mark // of this attempt, except Bytes; nil if nothing can be continued
	left      *journal.Mark // of an attempt that lost its connection
	resumable bool          // a mark was saved for a later run
	stale     *journal.Mark // an earlier run's leftover, useless once this copy is done
	earlier   bool          // the file still has an earlier run's mark, which may be continued
	halfway   bool          // the target was written in place, and is not complete

	markFile
}

// A markFile is the file of a mark, which is locked when it is first needed.
type markFile struct {
	asked bool          // lock was called, as before anything is read or written
	file  *journal.File // nil if another run holds it or there is no journal
}

// newMark returns the mark of a copy, nil if it cannot be continued.
func newMark(in *input, out *output) *journal.Mark {
	f := in.info()
	if !f.IsRegular() || !f.HasTimes || !out.atomic() {
		return nil
	}
	return &journal.Mark{Temporary: out.written(), Hidden: out.hidden, Private: out.private,
		Source: journal.Source{SourceSize: f.Size, SourceTime: f.Mtime, SourceID: f.ID}}
}

// leftBy reports whether the mark's file can only be an earlier run's leftover for this target.
func leftBy(c *Copy, m *journal.Mark, l *location) bool {
	if m.Hidden {
		return l.info == nil && m.Temporary == l.name
	}
	return l.left(c, m.Temporary)
}

// markName returns the name of the file's mark, "" if it has none.
func markName(c *Copy) string {
	return c.JournalKey("file", c.Source, c.Result.Target)
}

// begin continues an earlier run's or attempt's leftover, and removes others. It returns the offset
// to continue from, 0 if the copy starts over.
func (j *record) begin(c *Copy, in *input, out *output) (offset int64, err error) {
	offset, err = j.resume(c, in, out)
	if err == nil && offset == 0 {
		err = j.findStale(c, in, out)
	}
	if err != nil {
		return 0, err
	}
	if offset == 0 {
		j.dropLeft(c)
	}
	j.removeStrays(c, out)
	return offset, nil
}

// resume continues an earlier run's or attempt's leftover, if it is proved to be the beginning of
// the source. It returns the offset to continue from, 0 if there is none. It fails if the copy was
// interrupted meanwhile: the leftover then stays, so that the next attempt or run can continue it.
func (j *record) resume(c *Copy, in *input, out *output) (offset int64, err error) {
	if !resumes(c, in, out) {
		return 0, nil
	}
	f, m := in.info(), j.load(c)
	if m == nil {
		return 0, nil
	}
	if err := j.inherit(c, m, out); err != nil {
		return 0, err
	}
	if m.InPlace && m.Temporary == out.name {
		return 0, nil
	}
	ours := leftBy(c, m, &out.location)
	var why error
	switch {
	case ours && m.Bytes == 0:
	case m.SourceSize != f.Size || !m.SourceTime.Equal(f.Mtime) || m.SourceID != f.ID:
		why = errors.New("the source has changed since")
	case !ours:
		why = errors.New("belongs to another target")
	case m.Hidden && !out.hides(c):
		why = errors.New("this copy is to be proved before others see it")
	case m.Private && !out.setsMode(c, f):
		why = errors.New("only its owner can open it")
	default:
		if offset, why = out.resume(c, in, m); why == nil {
			return offset, nil
		}
		if c.interrupted() {
			return 0, cmp.Or(context.Cause(c.Ctx), why)
		}
		if c.slot.crowded(why) || sharesHandle(why) { // that says nothing about the leftover
			return 0, why
		}
	}
	if why != nil && !errors.Is(why, fs.ErrNotExist) {
		what := "an earlier run left: "
		if m == j.left {
			what = "was copied before the connection was lost: "
		}
		c.Note("not continuing from what " + what + endpoint.Plain(why))
	}
	if ours && !m.Hidden {
		c.known.addStray(m.Temporary)
	}
	j.left, j.earlier = nil, false
	return 0, nil
}

// resumes reports whether a leftover is continued if there is one.
func resumes(c *Copy, in *input, out *output) bool {
	f := in.info()
	return (c.Options.Resume || c.journal.left != nil) && c.main() != nil && !c.IsSmall() &&
		c.Options.Placement != PlaceDirect && !out.direct && f.IsRegular() && f.HasTimes
}

// findStale looks for the leftover of an interrupted run of the same copy, if this run does not
// continue it. It is removed once the copy is in place: otherwise the journal would forget it, and
// hidden files of any size would pile up beside the target.
func (j *record) findStale(c *Copy, in *input, out *output) error {
	if resumes(c, in, out) || j.left != nil || j.stale != nil || c.IsSmall() {
		return nil
	}
	if _, err := os.Lstat(markName(c)); err != nil {
		return nil
	}
	m := j.load(c)
	if m != nil && localfs.TempTokenOf(c.Dst.Base(m.Temporary)) == c.Token {
		return nil // by an attempt of this run, which removes it now
	}
	if err := j.inherit(c, m, out); err != nil {
		return err
	}
	if m != nil && !m.Hidden && out.left(c, m.Temporary) { // the host itself drops hidden ones
		j.stale = m
		if m.Bytes > 0 {
			c.Note(fmt.Sprintf("copying it again; the %d bytes that an interrupted copy left are "+
				"removed when it is done (transfer.Options.Resume continues from them)", m.Bytes))
		}
	}
	return nil
}

// inherit takes over the leftovers of an earlier run, and gives a file that it moved aside its name
// back. It fails if the copy was interrupted meanwhile.
func (j *record) inherit(c *Copy, m *journal.Mark, out *output) error {
	if m == nil || m == j.left {
		return nil
	}
	if m.Aside != "" && c.to != nil {
		if err := restore(c, onHost{out}, m.Aside); err != nil && c.interrupted() {
			return cmp.Or(context.Cause(c.Ctx), err)
		} else if err != nil {
			c.Warn(fmt.Sprintf("the old file that an interrupted copy moved aside is still called %s: %s",
				c.shown(m.Aside), endpoint.Plain(err)))
		}
	}
	for _, name := range m.Strays {
		if out.left(c, name) {
			c.known.addStray(name)
		}
	}
	return nil
}

// dropLeft gives up an attempt's leftover, since nothing continues it.
func (j *record) dropLeft(c *Copy) {
	if j.left != nil {
		if !j.left.Hidden {
			c.known.addStray(j.left.Temporary)
		}
		j.left = nil
	}
}

// removeStrays removes leftovers of earlier attempts that nothing will continue.
func (j *record) removeStrays(c *Copy, out *output) {
	strays := &c.known.strays
	for len(*strays) > 0 {
		var err error
		if (*strays)[0] != out.temp {
			err = out.files.Remove(c.Ctx, (*strays)[0])
		}
		if err != nil && !endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist) {
			return // the connection is lost again
		}
		if errors.Is(err, fs.ErrNotExist) { // of this run it may come yet
			c.known.late = c.known.late ||
				localfs.TempTokenOf(c.Dst.Base((*strays)[0])) == c.Token
		} else if err != nil {
			c.Leaves()
		}
		*strays = (*strays)[1:]
	}
}

// noteBefore records a temporary file before it is created, so that even if this process or the
// connection ends, the next run of the same copy can remove it. Small files of a tree are not
// recorded one by one; see leftovers. It is not inlined, to keep their stacks small.
//
//go:noinline
func (j *record) noteBefore(c *Copy, temporary string) {
	j.write(c, journal.Mark{Temporary: temporary})
}

// isHalfway reports whether this run or an earlier one wrote the target in place and did not
// complete it. Its mark is then held, and stays until the copy is complete.
func (j *record) isHalfway(c *Copy) bool {
	paths := func() (source, target string) { return c.Source, c.Result.Target }
	if !j.halfway && c.IsHalfway(paths) {
		j.halfway = true
		j.lock(c)
	}
	return j.halfway
}

// noteAside records that the old file is about to be moved aside, or keeps its name after all.
func (j *record) noteAside(c *Copy, p *commitState) {
	if c.IsSmall() {
		return
	}
	m := journal.Mark{Temporary: p.temporary}
	if j.mark != nil {
		m = *j.mark
		m.Temporary, m.Bytes = p.temporary, p.result.Bytes
	}
	j.write(c, m)
}

// mayContinue reports whether an attempt's leftover can be continued: by a later run, which finds
// it in the journal, or by this run's next attempt. Small files of a tree have no mark and start
// over, and so do targets such as a device.
func (j *record) mayContinue(c *Copy) bool {
	renews := slices.ContainsFunc(c.Conns(), func(conn *pool.Conn) bool {
		return pools.OfConn(conn).Renews()
	})
	return j.mark != nil && provable(c) &&
		(markName(c) != "" || c.Ctx.Err() == nil && renews)
}

// provable reports whether an attempt's leftover can be proved later to be the beginning of the
// source. Data from an old file is proved by a hash only, and a hole where the disk was full is not
// found.
func provable(c *Copy) bool {
	return (!c.known.delta || c.main().client.HasCheckFile()) && !doubtful(c)
}

// keep records an attempt's leftover.
func (j *record) keep(c *Copy, synced bool) {
	if j.mark == nil {
		return
	}
	m := *j.mark
	m.Bytes, m.Synced, m.Delta = c.Result.Bytes, synced, c.known.delta
	j.left = &m
	if j.write(c, m) {
		j.resumable = true
		c.Result.Detail += "; " + c.Rules.Resume
	}
}

// removeStale removes an earlier run's leftover once the copy is in place.
func (j *record) removeStale(c *Copy, out *output) {
	if endpoint.IgnoreMissing(out.files.Remove(c.Ctx, j.stale.Temporary)) == nil {
		j.stale = nil
	}
}

// conclude keeps the mark if a later run may need it, and reports what the last attempt did not get
// to.
func (j *record) conclude(c *Copy, err error) {
	t := &c.known
	keep := err != nil && (j.resumable || j.halfway || j.left != nil || j.earlier || c.lost() ||
		c.Result.LeftBehind != "" || t.committing != nil || len(t.strays) > 0)
	if !keep && j.stale != nil && j.file != nil { // this run has not removed an earlier one's leftover
		keep = j.file.Save(*j.stale)
	}
	j.release(keep)
	left := j.left
	if err == nil || left == nil || j.resumable {
		return
	}
	// no attempt will use it, and unlike a host this machine can still be reached
	if markName(c) == "" && c.to == nil && c.Dst.Remove(left.Temporary, false) == nil {
		c.Result.LeftBehind, c.Result.Detail = "", ""
	} else if c.Result.LeftBehind == "" && !left.Hidden && !errors.Is(err, errNotRenamed) {
		leavesPart(c, left.Temporary, left.Bytes)
		if t.committing != nil {
			c.Result.Detail += ", or it has its name already"
		}
	}
}

// load returns the mark of an earlier attempt or run, nil if there is none.
func (j *record) load(c *Copy) *journal.Mark {
	if j.left != nil {
		return j.left
	}
	if !j.lock(c) {
		return nil
	}
	m := j.file.Load()
	j.earlier = m != nil
	return m
}

// write writes a mark to the journal, and reports whether a later run will find it.
func (j *record) write(c *Copy, m journal.Mark) bool {
	if !m.Synced {
		m.Boot = localfs.BootID()
	}
	m.Delta, m.InPlace = c.known.delta, m.InPlace || j.halfway
	if racy := c.known.racy; racy.isRacy(c.Ctx) {
		m.RacyBytes = min(m.Bytes, racy.readTo.Load())
	}
	m.Strays = c.known.strays
	if j.stale != nil {
		m.Strays = append(slices.Clip(m.Strays), j.stale.Temporary)
	}
	if p := c.known.committing; p != nil {
		m.Aside = p.aside
	}
	if !j.lock(c) {
		return false
	}
	j.earlier = false
	return j.file.Save(m)
}

// markProgress records a large file's progress until stop is called.
func (j *record) markProgress(c *Copy, position func() int64) (stop func()) {
	if j.mark == nil || c.Size < leastMarked || c.Options.Journal == "" || !provable(c) {
		return func() {}
	}
	last := c.Result.Resumed
	// even if killed within the first second, a later run can remove the file
	if last == 0 {
		j.write(c, *j.mark)
	}
	return pace.Every(markEvery, func() {
		if bytes := position(); bytes > last {
			last = bytes
			m := *j.mark
			if m.Bytes = bytes; doubtful(c) {
				m.Bytes = 0 // there is nothing to continue
			}
			j.write(c, m)
		}
	})
}

// lock opens and locks the mark, at most once. It reports whether this run holds it.
func (j *markFile) lock(c *Copy) bool {
	if j.asked {
		return j.file != nil
	}
	j.asked = true
	if name := markName(c); name != "" {
		var taken bool
		if j.file, taken = journal.Lock(name); taken {
			c.Note("another run is making the same copy; the two do not share data")
		}
	}
	return j.file != nil
}

// release ends the lock. The mark stays if keep is set.
func (j *markFile) release(keep bool) {
	if j.file != nil {
		j.file.Release(keep)
		j.file = nil
	}
}

// prove returns how far the open file is the beginning of the source, or why it is not. A longer
// file is truncated.
func (o *output) prove(c *Copy, in *input, m *journal.Mark) (int64, error) {
	if c.to != nil {
		return onHost{o}.provePart(c, in, m)
	}
	return onDisk{o}.provePart(c, in, m)
}

// provePart proves an earlier run's leftover by the source's hash, or by comparing its end.
func (o onDisk) provePart(c *Copy, in *input, m *journal.Mark) (offset int64, err error) {
	file := o.writer.(*endpoint.LocalWriter).File
	if offset, err = proveLocal(c, file, in, m); err == nil {
		err = file.Truncate(offset)
	}
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
		in.same.inherit(m)
	}
	return offset, err
}

// survived reports whether this machine still has all of a leftover. If it has restarted, the lost
// data need not be the last written: the kernel writes back in any order, and so do several handles.
// A hole in the middle would read as zeros.
func survived(m *journal.Mark) bool {
	return m.Synced || m.Boot != "" && m.Boot == localfs.BootID()
}

func proveLocal(c *Copy, file *os.File, in *input, m *journal.Mark) (offset int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || localfs.Links(info) > 1 || info.Size() < m.Bytes {
		return 0, errors.New("was replaced")
	}
	if m == c.journal.left { // this run's own attempt
		return m.Bytes, nil
	}
	same, known := c.from.prover().begins(c.Ctx, in.host.File, file, m.Bytes)
	switch {
	case c.Ctx.Err() != nil:
		return 0, context.Cause(c.Ctx)
	case known && !same:
		return 0, errDiffers
	case known:
		return m.Bytes, nil
	case m.Delta:
		return 0, errUnprovable
	case !survived(m):
		return 0, errors.New("this machine may have restarted since, which may have lost some of it")
	}
	// The disk may have gone away without the machine: a stick that was pulled out lacks what was
	// written last.
	off := max(0, m.Bytes-tail)
	r := in.host.File.ReadRange(off, m.Bytes-off)
	defer r.Close()
	_, err = io.Copy(io.NewOffsetWriter(&comparer{at: file, size: m.Bytes}, off), r)
	return m.Bytes, err
}

// provePart proves an earlier run's leftover by the host's hash or by reading back its end.
func (o onHost) provePart(c *Copy, in *input, m *journal.Mark) (int64, error) {
	if m.RacyBytes > 0 && m != c.journal.left {
		return 0, errors.New("the source was being written to when the copy started")
	}
	file := o.host().File
	size, err := proveRemote(c, file, in, m)
	if err != nil {
		return 0, err
	}
	if size > m.Bytes {
		o.over = size
	}
	_, err = file.Seek(m.Bytes, io.SeekStart)
	return m.Bytes, err
}

// endsInHole reports whether the source has no data between two offsets. A run that was killed may
// have counted a hole that the host's file does not have: only data behind it makes it.
func endsInHole(in *input, from, to int64) bool {
	local, isLocal := in.own().(*endpoint.LocalFile)
	return isLocal && localfs.FindHoles(local.File).DataBefore(to) <= from
}

// proveRemote proves that the file begins like the source, and truncates the rest. Where the host
// does not truncate files, or only says so, the rest stays if all of it will be overwritten: size is
// then the size of it all, for a source that may shrink.
func proveRemote(c *Copy, f *usftp.File, in *input, m *journal.Mark) (size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	var why error
	over := false
	switch size = info.Size(); {
	case !info.Mode().IsRegular():
		return 0, errors.New("not a regular file")
	case size < m.Bytes && size > 0 && endsInHole(in, size, m.Bytes):
		m.Bytes = size
	case size < m.Bytes:
		why = errors.New("shorter than it was")
	case size > m.Bytes && size <= in.info().Size && private.OfClient(c.to.client).EmptiesToCut():
		// the rest will be written over
	case size > m.Bytes:
		if err := f.Truncate(m.Bytes); err != nil {
			why = fmt.Errorf("cannot be truncated to what is known to be good: %w", err)
			over = endpoint.Refused(err) && size <= in.info().Size
		} else if !c.Options.Changing {
			size = m.Bytes
		} else if info, err = f.Stat(); err != nil {
			return 0, err
		} else {
			size = info.Size()
		}
	}
	if why != nil {
		kept, err := c.to.prover().kept(f, in, min(size, in.info().Size))
		if kept > 0 && size <= in.info().Size {
			m.Bytes = kept
			return size, nil
		}
		if !over || err != nil {
			return 0, cmp.Or(err, why)
		}
	}
	if same, known := c.to.prover().begins(c.Ctx, f, in, m.Bytes); known {
		if !same {
			return 0, errDiffers
		}
		return size, nil
	}
	if m.Delta {
		return 0, errUnprovable
	}
	length := int64(tail)
	switch {
	case m == c.journal.left:
		length = retriedTail
	case !m.Synced:
		length = unsyncedTail
	}
	off := max(0, m.Bytes-length)
	r := f.ReadRange(off, m.Bytes-off)
	defer r.Close()
	_, err = io.Copy(io.NewOffsetWriter(&comparer{at: in, size: m.Bytes}, off), r)
	return size, err
}

// begins reports whether a file on the host begins with the first n bytes of a local one, by
// hashing both at the same time. known is false if the host cannot hash, or ctx ends.
func (s prover) begins(ctx context.Context, f *usftp.File, local io.ReaderAt,
	n int64) (same, known bool) {
	if !s.client.HasCheckFile() {
		return false, false
	}
	var theirs *usftp.FileHashes
	var theirErr error
	var asking sync.WaitGroup
	asking.Go(func() {
		theirs, theirErr = f.CheckFile(usftp.CheckFile{Algorithms: []string{"sha256"}, Length: n,
			BlockSize: hashPiece})
	})
	ours := checksum.NewDigest(checksum.SHA256, hashPiece)
	got, err := io.Copy(ours, interruptibleReader{ctx, io.NewSectionReader(local, 0, n)})
	ours.Finish()
	asking.Wait()
	if theirErr != nil || theirs.Algorithm != "sha256" || ctx.Err() != nil {
		return false, false
	}
	return err == nil && got == n && slices.EqualFunc(ours.Sums, theirs.Hashes, bytes.Equal), true
}

// Servers in front of object stores keep whole parts of an upload that ended half way, which cannot
// be read or cut. They know the MD5 of each, but not where the client would cut. Parts have the
// least length or that doubled several times, and grow towards the end of a file (usftpd).
const (
	leastPart = 5 << 20
	mostPart  = 1280 << 20
)

// kept returns how many of the first n bytes of a host's file are proved, part by part, to be the
// beginning of a local one.
func (s prover) kept(f *usftp.File, local io.ReaderAt, n int64) (kept int64, err error) {
	if !s.client.HasCheckFile() {
		return 0, nil
	}
	for part := int64(leastPart); part <= mostPart && kept+part <= n; {
		theirs, err := f.CheckFile(usftp.CheckFile{Algorithms: []string{"md5"}, Offset: kept,
			Length: part})
		if endpoint.Refused(err) {
			part *= 2
			continue
		}
		if err != nil || theirs.Algorithm != "md5" {
			return 0, err
		}
		ours := md5.New()
		if _, err := io.Copy(ours, io.NewSectionReader(local, kept, part)); err != nil {
			return 0, err
		}
		if !bytes.Equal(ours.Sum(nil), theirs.Hashes[0]) {
			return 0, errDiffers
		}
		kept += part
	}
	return kept, nil
}

// A comparer is a writer that fails when it is given anything but a file's contents.
type comparer struct {
	at     io.ReaderAt
	size   int64
	buffer []byte
}

func (c *comparer) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > c.size {
		return 0, errDiffers
	}
	if cap(c.buffer) < len(p) {
		c.buffer = make([]byte, len(p))
	}
	got := c.buffer[:len(p)]
	n, err := c.at.ReadAt(got, off)
	switch {
	case n == len(p) && bytes.Equal(got, p):
		return n, nil
	case n == len(p) || err == io.EOF:
		return 0, errDiffers
	}
	return 0, err
}
