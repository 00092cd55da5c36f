package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
)

// A mark records what an interrupted copy left, for a later one to continue. It is a file in the
// journal.
type mark struct {
	Temporary string `json:"temporary"`        // path at the target's end
	Hidden    bool   `json:"hidden,omitempty"` // it is the target's, which the host does not show yet
	Bytes     int64  `json:"bytes"`            // the contiguous part; 0 if unknown

	// InPlace is set if it is the target itself, and what it holds may be neither the old contents
	// nor the new ones.
	InPlace bool   `json:"in_place,omitempty"`
	Synced  bool   `json:"synced"`         // that part is on disk
	Boot    string `json:"boot,omitempty"` // of this machine: a crash may have lost what was not

	markedSource

	// Delta is set if parts came from the old file. Only a hash of all of it can then show that it
	// is the beginning of the source.
	Delta bool `json:"delta,omitempty"`

	// RacyBytes is how far the source may have been written to while it was read; see racySource.
	RacyBytes int64 `json:"racy_bytes,omitempty"`
	// Strays are temporary files of earlier attempts and runs that were not removed.
	Strays []string `json:"strays,omitempty"`

	// Aside is where the replaced file is while the new one gets its name, on hosts that cannot do
	// that in one step.
	Aside string `json:"aside,omitempty"`
}

// A markedSource is the source as it was then.
type markedSource struct {
	SourceSize int64     `json:"source_size"`
	SourceTime time.Time `json:"source_time"`
	SourceID   string    `json:"source_id"` // of a local file
}

// errUnprovable reports that what a delta left cannot be continued.
var errUnprovable = errors.New(
	"parts of it came from the old file, and the host does not hash it to prove that they are right")

const (
	// markAge is how long marks are kept. A copy not continued by then never will be.
	markAge = 30 * 24 * time.Hour

	longestMark = 64 << 10 // more than any mark takes

	// leastMarked is the size from which a file's progress is recorded while it is copied, so that
	// a killed process can be continued too.
	leastMarked = 8 << 20
	markEvery   = time.Second

	// tail is how much of an earlier run's data is read back and compared before continuing. A
	// server that went down may have lost the end of what was not synced.
	tail         = 1 << 20
	unsyncedTail = 16 << 20

	// retriedTail is for a copy that continues by itself after seconds. It is small, so that the
	// copy progresses even over a link that breaks every few seconds.
	retriedTail = 256 << 10
)

// A journal is one file's part in the journal. As long as it holds the lock on its mark, no other
// run of the same copy continues from what this one is writing.
type journal struct {
	mark      *mark // of this attempt, except Bytes; nil if nothing can be continued
	left      *mark // by an attempt that lost its connection
	resumable bool  // a mark was saved for a later run
	stale     *mark // what an earlier run left, useless once this copy is done
	earlier   bool  // the file still has an earlier run's mark, which may be continued
	halfway   bool  // the target was written in place, and is not complete

	markFile
}

// A markFile is the file of a mark, which is locked when it is first needed.
type markFile struct {
	asked bool     // lock was called
	file  *os.File // nil if another run holds it or there is no journal
}

// newMark returns what to record about a copy, nil if it cannot be continued.
func newMark(in *input, out *output) *mark {
	f := in.info()
	if !f.IsRegular() || !f.HasTimes || !out.atomic() {
		return nil
	}
	return &mark{Temporary: out.written(), Hidden: out.hidden,
		markedSource: markedSource{f.Size, f.Mtime, f.ID}}
}

// isOf reports whether the source is as it was.
func (m *markedSource) isOf(f *endpoint.Info) bool {
	return m.SourceSize == f.Size && m.SourceTime.Equal(f.Mtime) && m.SourceID == f.ID
}

// leftBy reports whether what the mark names can only be what an earlier run for this target left.
func (m *mark) leftBy(c *fileCopy, l *location) bool {
	if m.Hidden {
		return l.info == nil && m.Temporary == l.name
	}
	return l.left(c, m.Temporary)
}

// markName returns the name of the file's mark, "" if it has none.
func markName(c *fileCopy) string {
	return c.journalKey("file", c.source, c.result.Target)
}

// resume continues what an earlier run or attempt left, if that is proved to be the beginning of
// the source. It returns the offset to continue from, 0 if there is nothing. It fails if the copy
// was interrupted meanwhile: nothing is then given up, so that the next attempt or run can go on
// from it.
func (j *journal) resume(c *fileCopy, in *input, out *output) (offset int64, err error) {
	f := in.info()
	resumes := c.options.Resume || j.left != nil
	if !resumes || c.main() == nil || c.options.Placement == PlaceDirect || c.isSmall() ||
		out.direct || !f.IsRegular() || !f.HasTimes {
		return 0, nil
	}
	m := j.load(c)
	if m == nil {
		return 0, nil
	}
	if err := j.inherit(c, m, out); err != nil {
		return 0, err
	}
	if m.InPlace && m.Temporary == out.name {
		return 0, nil
	}
	ours := m.leftBy(c, &out.location)
	var why error
	switch {
	case ours && m.Bytes == 0:
	case !m.isOf(f):
		why = errors.New("the source has changed since")
	case !ours:
		why = errors.New("belongs to another target")
	default:
		if offset, why = out.resume(c, in, m); why == nil {
			return offset, nil
		}
		if c.interrupted() {
			return 0, cmp.Or(context.Cause(c.ctx), why)
		}
	}
	if why != nil && !errors.Is(why, fs.ErrNotExist) {
		c.note("not continuing from what an earlier run left: " + plain(why))
	}
	if ours && !m.Hidden {
		c.known.addStray(m.Temporary)
	}
	j.left, j.earlier = nil, false
	return 0, nil
}

// findStale looks for what an interrupted run of the same copy left, if this run does not continue
// it. It is removed once the copy is in place: otherwise the journal would forget it, and hidden
// files of any size would pile up beside the target.
func (j *journal) findStale(c *fileCopy, out *output) error {
	resumed := c.options.Resume && c.main() != nil && c.options.Placement != PlaceDirect &&
		!out.direct
	if resumed || j.left != nil || j.stale != nil || c.isSmall() {
		return nil
	}
	if _, err := os.Lstat(markName(c)); err != nil {
		return nil
	}
	m := j.load(c)
	if err := j.inherit(c, m, out); err != nil {
		return err
	}
	if m != nil && !m.Hidden && out.left(c, m.Temporary) { // the host drops what it hides
		j.stale = m
		if m.Bytes > 0 {
			c.note(fmt.Sprintf("copying it again; the %d bytes that an interrupted copy left are "+
				"removed when it is done (transfer.Options.Resume continues from them)", m.Bytes))
		}
	}
	return nil
}

// inherit takes over what an earlier run's attempts left, and gives a file that it moved aside its
// name back. It fails if the copy was interrupted meanwhile.
func (j *journal) inherit(c *fileCopy, m *mark, out *output) error {
	if m == nil || m == j.left {
		return nil
	}
	if m.Aside != "" && c.to != nil {
		if err := restore(c, onHost{out}, m.Aside); err != nil && c.interrupted() {
			return cmp.Or(context.Cause(c.ctx), err)
		} else if err != nil {
			c.warn(fmt.Sprintf("the old file that an interrupted copy moved aside is still called %s: %s",
				c.shown(m.Aside), plain(err)))
		}
	}
	for _, name := range m.Strays {
		if out.left(c, name) {
			c.known.addStray(name)
		}
	}
	return nil
}

// dropLeft gives up what an attempt left, since nothing continues it.
func (j *journal) dropLeft(c *fileCopy) {
	if j.left != nil {
		if !j.left.Hidden {
			c.known.addStray(j.left.Temporary)
		}
		j.left = nil
	}
}

// removeStrays removes what earlier attempts left that nothing will continue.
func (j *journal) removeStrays(c *fileCopy, out *output) {
	strays := &c.known.strays
	for len(*strays) > 0 {
		var err error
		if (*strays)[0] != out.temp {
			err = out.files.Remove(c.ctx, (*strays)[0])
		}
		if err != nil && !endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist) {
			return // the connection is lost again
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.leaves()
		}
		*strays = (*strays)[1:]
	}
}

// noteBefore records a temporary file before it is made, so that whatever becomes of this process
// or the connection, the next run of the same copy knows what to remove. Small files of a tree are
// not recorded one by one; see leftovers. It is not inlined, to keep their stacks small.
//
//go:noinline
func (j *journal) noteBefore(c *fileCopy, temporary string) {
	if !c.isSmall() {
		j.write(c, mark{Temporary: temporary})
	}
}

// noteInPlace records that the target is about to be written in place.
func (j *journal) noteInPlace(c *fileCopy, target string) {
	j.write(c, mark{Temporary: target, InPlace: true})
}

// isHalfway reports whether this run or an earlier one wrote the target in place and did not
// complete it. The mark that says so is then held, and stays until the copy is complete.
func (j *journal) isHalfway(c *fileCopy) bool {
	if !j.halfway && c.halfways.has(c.copyRun, c.source, c.result.Target) {
		j.halfway = true
		j.lock(c)
	}
	return j.halfway
}

// noteAside records that the old file is about to lose its name to a new one, or does not after
// all.
func (j *journal) noteAside(c *fileCopy, p *commitState) {
	if c.isSmall() {
		return
	}
	m := mark{Temporary: p.temporary}
	if j.mark != nil {
		m = *j.mark
		m.Temporary, m.Bytes = p.temporary, p.size
	}
	j.write(c, m)
}

// mayContinue reports whether anything could continue from what an attempt leaves: a later run,
// which finds it in the journal, or the next attempt of this one. Small files of a tree start over
// in any case, and so does what has no mark, such as a device.
func (j *journal) mayContinue(c *fileCopy) bool {
	renews := slices.ContainsFunc(c.conns(), func(conn *pool.Conn) bool {
		return pools.OfConn(conn).Renews()
	})
	return !c.isSmall() && j.mark != nil && provable(c) &&
		(markName(c) != "" || c.ctx.Err() == nil && renews)
}

// provable reports whether it can be told later that what an attempt leaves is the beginning of the
// source. What came from an old file is proved by a hash only.
func provable(c *fileCopy) bool {
	return !c.known.delta || c.main().client.HasCheckFile()
}

// keep records what an attempt has left.
func (j *journal) keep(c *fileCopy, synced bool) {
	if j.mark == nil {
		return
	}
	m := *j.mark
	m.Bytes, m.Synced, m.Delta = c.result.Bytes, synced, c.known.delta
	j.left = &m
	if j.write(c, m) {
		j.resumable = true
		c.result.detail += "; " + c.rules.resume
	}
}

// removeStale removes what an earlier run left, once the copy is in place.
func (j *journal) removeStale(c *fileCopy, out *output) {
	if j.stale != nil && endpoint.IgnoreMissing(out.files.Remove(c.ctx, j.stale.Temporary)) == nil {
		j.stale = nil
	}
}

// restoreStale makes the mark again what it was, if this run has not removed what an earlier one
// left and has nothing to record itself. It reports whether the mark is to be kept.
func (j *journal) restoreStale() bool {
	return j.stale != nil && j.file != nil && j.save(*j.stale)
}

// load returns what an earlier attempt or run left, nil if nothing is known.
func (j *journal) load(c *fileCopy) *mark {
	if j.left != nil {
		return j.left
	}
	if !j.lock(c) {
		return nil
	}
	m := decodeMark(io.NewSectionReader(j.file, 0, longestMark))
	j.earlier = m != nil
	return m
}

// decodeMark returns nil unless r begins with a valid mark.
func decodeMark(r io.Reader) *mark {
	var m mark
	if json.NewDecoder(io.LimitReader(r, longestMark)).Decode(&m) != nil || m.Bytes < 0 ||
		m.Temporary == "" {
		return nil
	}
	return &m
}

// write writes a mark to the journal, and reports whether a later run will find it.
func (j *journal) write(c *fileCopy, m mark) bool {
	if !m.Synced {
		m.Boot = localfs.BootID()
	}
	m.Delta, m.InPlace = c.known.delta, m.InPlace || j.halfway
	if racy := c.known.racy; racy.isRacy(c.ctx) {
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
	return j.save(m)
}

// markProgress records a large file's progress until stop is called.
func (j *journal) markProgress(c *fileCopy, position func() int64) (stop func()) {
	if j.mark == nil || c.size < leastMarked || c.options.Journal == "" || !provable(c) {
		return func() {}
	}
	last := c.result.Resumed
	// even if killed within the first second, a later run can remove the file
	if last == 0 {
		j.write(c, *j.mark)
	}
	return pace.Every(markEvery, func() {
		if bytes := position(); bytes > last {
			last = bytes
			m := *j.mark
			m.Bytes = bytes
			j.write(c, m)
		}
	})
}

func (f *markFile) save(m mark) bool {
	data, err := json.Marshal(m)
	if err != nil {
		return false
	}
	// Write it at once and truncate afterwards: readers take the first JSON value, so the mark is
	// valid even if we are killed in between.
	if _, err := f.file.WriteAt(append(data, '\n'), 0); err != nil {
		return false
	}
	return f.file.Truncate(int64(len(data))+1) == nil
}

// lock opens and locks the mark, once. It reports whether this run holds it.
func (m *markFile) lock(c *fileCopy) bool {
	if m.asked {
		return m.file != nil
	}
	m.asked = true
	name := markName(c)
	if name == "" || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return false
	}
	sweepJournal(c.options.Journal)
	for {
		f, err := localfs.OpenPrivate(name)
		if err != nil {
			return false
		}
		if !localfs.TryLock(f) {
			f.Close()
			c.note("another run is making the same copy; the two do not share data")
			return false
		}
		ours, err := f.Stat()
		there, thereErr := os.Stat(name)
		if err == nil && thereErr == nil && os.SameFile(ours, there) {
			m.file = f
			return true
		}
		localfs.CloseLocked(f) // its holder removed it before we got the lock
		if err != nil || thereErr != nil && !errors.Is(thereErr, fs.ErrNotExist) {
			return false
		}
	}
}

// release ends the lock. The mark stays if there is something to continue.
func (m *markFile) release(keep bool) {
	f := m.file
	if f == nil {
		return
	}
	m.file = nil
	if info, err := f.Stat(); keep && err == nil && info.Size() > 0 {
		localfs.CloseLocked(f)
		return
	}
	localfs.RemoveLocked(f)
}

// sweepJournal removes marks that are too old, and the oldest of too many.
func sweepJournal(journal string) {
	entries, _ := os.ReadDir(journal)
	var complete []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		most := markAge
		if strings.HasSuffix(e.Name(), treeSuffix) && info.Size() > 0 {
			most = completeAge
			complete = append(complete, info)
		}
		if time.Since(info.ModTime()) > most {
			os.Remove(filepath.Join(journal, e.Name()))
		}
	}
	if len(complete) < mostComplete {
		return
	}
	slices.SortFunc(complete, func(a, b fs.FileInfo) int {
		return a.ModTime().Compare(b.ModTime())
	})
	for _, info := range complete[:len(complete)-mostComplete+1] { // leaves room for one more
		os.Remove(filepath.Join(journal, info.Name()))
	}
}

// prove returns up to where the open file is the beginning of the source, or why it is not. A
// longer one is cut.
func (o *output) prove(c *fileCopy, in *input, m *mark) (int64, error) {
	if c.to != nil {
		return onHost{o}.provePart(c, in, m)
	}
	return onDisk{o}.provePart(c, in, m)
}

// provePart proves what an earlier run left by the source's hash, or drops the end of it that may
// not have reached the disk.
func (o onDisk) provePart(c *fileCopy, in *input, m *mark) (offset int64, err error) {
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

func proveLocal(c *fileCopy, file *os.File, in *input, m *mark) (offset int64, err error) {
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
	same, known := false, false
	if in.host != nil {
		same, known = c.from.prover().begins(in.host.File, file, m.Bytes)
	}
	switch {
	case known && !same:
		return 0, errDiffers
	case known:
		return m.Bytes, nil
	case m.Delta:
		return 0, errUnprovable
	case m.Synced:
		offset = m.Bytes - tail
	case m.Boot != localfs.BootID():
		// What was lost need not be what was written last: the kernel writes back in any order, and
		// so do several handles. A hole in the middle would read as zeros.
		return 0, errors.New("this machine has restarted since, which may have lost some of it")
	case m.Boot != "":
		// the process was killed, not the machine: the kernel has everything it was given
		offset = m.Bytes - tail
	default:
		offset = m.Bytes - unsyncedTail
	}
	if offset <= 0 {
		return 0, errors.New("too little of it is left")
	}
	return offset, nil
}

// provePart proves what an earlier run left by the host's hash or by reading back its end.
func (o onHost) provePart(c *fileCopy, in *input, m *mark) (int64, error) {
	if m.RacyBytes > 0 && m != c.journal.left {
		return 0, errors.New("the source was being written to when the copy started")
	}
	file := o.host().File
	if err := proveRemote(c, file, in, m); err != nil {
		return 0, err
	}
	_, err := file.Seek(m.Bytes, io.SeekStart)
	return m.Bytes, err
}

// proveRemote proves that what is in the file is the beginning of the source, and cuts off the
// rest. Where the host does not cut files, or only says so, the rest stays if all of it will be
// written over.
func proveRemote(c *fileCopy, f *usftp.File, in *input, m *mark) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var why error
	over := false
	switch {
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() < m.Bytes:
		why = errors.New("shorter than it was")
	case info.Size() > m.Bytes:
		if err := f.Truncate(m.Bytes); err != nil {
			why = fmt.Errorf("cannot be truncated to what is known to be good: %w", err)
			over = endpoint.Refused(err) && info.Size() <= in.info().Size
		}
	}
	if why != nil {
		kept, err := c.to.prover().kept(f, in, min(info.Size(), in.info().Size))
		if kept > 0 && info.Size() <= in.info().Size {
			m.Bytes = kept
			return nil
		}
		if !over || err != nil {
			return cmp.Or(err, why)
		}
	}
	if same, known := c.to.prover().begins(f, in, m.Bytes); known {
		if !same {
			return errDiffers
		}
		return nil
	}
	if m.Delta {
		return errUnprovable
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
	return err
}
