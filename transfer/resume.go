package transfer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/usftp/usftp"
)

const (
	// tail is how much of what an earlier run has left is read back and compared before going on
	// from there. Where it was not synced the server may have lost what it had not yet written, if
	// it has gone down in between.
	tail         = 1 << 20
	unsyncedTail = 16 << 20

	// retriedTail is for a job that goes on by itself: seconds have passed since. It is little, so
	// that a job gets on over a link that breaks every few seconds too.
	retriedTail = 256 << 10
)

// resumeHint tells how to go on, for errors.
const resumeHint = "the same with --resume goes on from there"

// goesOnAt notes where a try begins. What was there before this run is told to the listener: it has
// not travelled now, and is no part of the rate.
func (r *run) goesOnAt(offset int64) {
	r.result.Resumed = offset
	if r.retried {
		return
	}
	r.found = offset
	if r.item != nil {
		r.item.dir.tree.resumed.Add(offset)
	}
}

// sourceID is a local file's identity.
func sourceID(info fs.FileInfo) string { return fileID(info) }

// left tells whether a run for this target can have left a file of this name.
func (t *remoteTarget) left(name string) bool {
	return path.Dir(name) == path.Dir(t.path) &&
		strings.HasPrefix(path.Base(name), temporaryPrefix(path.Base(t.path)))
}

func (t *localTarget) left(name string) bool {
	return t.root != nil && strings.HasPrefix(filepath.Base(name), temporaryPrefix(t.name))
}

// beginAnew looks for what an interrupted run of the same job has left, where this one does not go
// on from there. It is removed once the copy is in place: the journal will know it no longer, and
// hidden files of any size would pile up beside the target.
func (r *run) beginAnew(target string, ours func(name string) bool) {
	if r.resumes() || r.stale != "" || r.isSmall(r.size) {
		return
	}
	if _, err := os.Lstat(r.journalFile(target)); err != nil {
		return
	}
	m := r.loadMark(target)
	r.inheritStrays(m, ours)
	if m != nil && ours(m.Temporary) {
		r.stale = m.Temporary
		if m.Bytes == 0 {
			return // nobody would have gone on from that
		}
		r.note(fmt.Sprintf("it is copied anew; the %d bytes that an interrupted copy has left are removed when it is done (--resume goes on from them)", m.Bytes))
	}
}

// inheritStrays takes over what tries of an earlier run have left.
func (r *run) inheritStrays(m *mark, ours func(name string) bool) {
	if m == nil || m == r.left {
		return
	}
	for _, name := range m.Strays {
		if ours(name) {
			r.strays = append(r.strays, name)
		}
	}
}

// resumeRemote opens what an earlier upload has left, if it is proved to be the beginning of the
// source: by the journal, which knows the source and the temporary name, and by the server's hash
// where there is one, else by reading back its end. It returns nil where there is nothing to go on
// from.
func (r *run) resumeRemote(target *remoteTarget,
	from *source) (f *usftp.File, temporary string, offset int64) {
	if !r.resumes() || r.Options.Placement == InPlace || from.file == nil || target.direct {
		return nil, "", 0
	}
	m := r.loadMark(target.path)
	if m == nil {
		return nil, "", 0
	}
	why := ""
	ours := target.left(m.Temporary)
	r.inheritStrays(m, target.left)
	client := r.Host.Client
	if ours && m.Bytes == 0 {
		if err := client.Remove(m.Temporary); err == nil || refused(err) {
			r.dropMark(target.path)
		}
		return nil, "", 0
	}
	switch {
	case m.SourceSize != from.before.Size() || !m.SourceTime.Equal(from.before.ModTime()) ||
		m.SourceID != sourceID(from.before):
		why = "the source has changed since"
	case !ours:
		why = "it lies elsewhere"
	case r.Direction == Relay && m.SourceDoubt > 0 && m != r.left:
		why = "the source was being written to when it was begun"
	}
	if why == "" {
		var err error
		if f, err = client.OpenFile(m.Temporary, os.O_RDWR, 0); errors.Is(err, fs.ErrNotExist) {
			r.dropMark(target.path)
			return nil, "", 0
		} else if err != nil {
			why = "it cannot be opened: " + plain(err)
		} else if why = r.proveRemote(f, from.file, m); why == "" {
			return f, m.Temporary, m.Bytes
		}
	}
	if f != nil {
		f.Close()
	}
	r.note("what an earlier run has left is not gone on from: " + why)
	if !r.interrupted(nil) {
		if ours {
			client.Remove(m.Temporary)
		}
		r.dropMark(target.path)
	}
	return nil, "", 0
}

// proveRemote returns why what is in the file is not known to be the beginning of the source, ""
// where it is. It cuts off what lies behind.
func (r *run) proveRemote(f *usftp.File, local io.ReaderAt, m *mark) string {
	info, err := f.Stat()
	if err != nil {
		return plain(err)
	}
	if !info.Mode().IsRegular() || info.Size() < m.Bytes {
		return "it is shorter than it was"
	}
	if info.Size() > m.Bytes {
		if err := f.Truncate(m.Bytes); err != nil {
			return "it cannot be cut to what is known: " + plain(err)
		}
	}
	if same, told := r.sameHash(f, local, m.Bytes); told {
		if !same {
			return "it differs from the source"
		}
		return ""
	}
	length := int64(tail)
	switch {
	case m == r.left:
		length = retriedTail
	case !m.Synced:
		length = unsyncedTail
	}
	off := max(0, m.Bytes-length)
	equal := &comparer{at: local, size: m.Bytes, off: off}
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return plain(err)
	}
	if _, err := f.WriteTo(equal); err != nil {
		return plain(err)
	}
	return ""
}

// hashPiece is how much one hash is taken of: so no answer takes long, and a server that is stuck
// can be told from one that is busy.
const hashPiece = 64 << 20

// sameHash compares the first n bytes of a file on the host with those of a local one, by the
// host's hashes, while it takes its own. Told is false where it offers none.
func (r *run) sameHash(f *usftp.File, local io.ReaderAt, n int64) (same, told bool) {
	if !r.Host.Client.HasCheckFile() {
		return false, false
	}
	type answer struct {
		hashes *usftp.FileHashes
		err    error
	}
	asked := make(chan answer, 1)
	go func() {
		hashes, err := f.CheckFile(usftp.CheckFile{Algorithms: []string{"sha256"}, Length: n,
			BlockSize: hashPiece})
		asked <- answer{hashes, err}
	}()
	ours, err := hashPieces(local, n)
	far := <-asked
	if far.err != nil || far.hashes.Algorithm != "sha256" {
		return false, false
	}
	return err == nil && slices.EqualFunc(ours, far.hashes.Hashes, bytes.Equal), true
}

// hashPieces hashes the first n bytes piece by piece.
func hashPieces(local io.ReaderAt, n int64) (hashes [][]byte, err error) {
	for off := int64(0); off < n; off += hashPiece {
		h := sha256.New()
		length := min(hashPiece, n-off)
		if got, err := io.Copy(h, io.NewSectionReader(local, off, length)); err != nil ||
			got != length {
			return nil, errors.Join(errDiffers, err)
		}
		hashes = append(hashes, h.Sum(nil))
	}
	return hashes, nil
}

// resumeLocal opens what an earlier download has left, if it is proved to be the beginning of the
// source. It returns where to go on, 0 where there is nothing to go on from. Of what was not synced
// the end is fetched again.
func (r *run) resumeLocal(t *localTarget, remote *usftp.File,
	before *usftp.FileStat) (offset int64) {
	if !r.resumes() || r.Options.Placement == InPlace || t.direct || before == nil ||
		!before.HasSize() || !before.HasTimes() {
		return 0
	}
	m := r.loadMark(t.path)
	if m == nil {
		return 0
	}
	name := filepath.Base(m.Temporary)
	ours := t.left(name)
	if ours && m.Bytes == 0 {
		t.root.Remove(name)
		r.dropMark(t.path)
		return 0
	}
	why := ""
	switch {
	case m.SourceSize != int64(before.Size) || !m.SourceTime.Equal(before.ModTime()):
		why = "the source has changed since"
	case !ours:
		why = "it lies elsewhere"
	}
	if why == "" {
		file, err := t.root.OpenFile(name, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			r.dropMark(t.path)
			return 0
		}
		if err == nil {
			if offset, why = r.proveLocal(file, remote, m); why == "" {
				r.inheritDoubt(before, m)
				t.file, t.temporary, r.temporary = file, name, name
				return offset
			}
			file.Close()
		} else {
			why = plain(err)
		}
	}
	r.note("what an earlier run has left is not gone on from: " + why)
	if ours {
		t.root.Remove(name)
	}
	r.dropMark(t.path)
	return 0
}

func (r *run) proveLocal(file *os.File, remote *usftp.File, m *mark) (offset int64, why string) {
	info, err := file.Stat()
	if err != nil {
		return 0, plain(err)
	}
	if !info.Mode().IsRegular() || links(info) > 1 || info.Size() < m.Bytes {
		return 0, "it is not what it was"
	}
	if m == r.left { // this run's own
		offset = m.Bytes
	} else if same, told := r.sameHash(remote, file, m.Bytes); told && !same {
		return 0, "it differs from the source"
	} else if told {
		offset = m.Bytes
	} else if m.Synced {
		offset = max(0, m.Bytes-tail)
	} else if m.Boot != bootID() {
		// What was written last need not be what is lost: the kernel stores in an order of its own,
		// and what arrives over several lanes is written in any. A hole in the middle would read as
		// zeros.
		return 0, "this machine was restarted since, and may have lost some of it"
	} else if m.Boot != "" {
		// It was this process's predecessor that was killed, and not the machine: the kernel has all
		// that it was given.
		offset = max(0, m.Bytes-tail)
	} else {
		offset = max(0, m.Bytes-unsyncedTail)
	}
	if offset == 0 {
		return 0, "too little of it is there"
	}
	if err := file.Truncate(offset); err != nil {
		return 0, plain(err)
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return 0, plain(err)
	}
	return offset, ""
}

// goOn moves both ends to where an earlier run has come to.
func (r *run) goOn(remote *usftp.File, local io.Seeker) error {
	if r.result.Resumed == 0 {
		return nil
	}
	if _, err := remote.Seek(r.result.Resumed, io.SeekStart); err != nil {
		return err
	}
	_, err := local.Seek(r.result.Resumed, io.SeekStart)
	return err
}

// remoteMarks is what is noted of an upload; nil where nothing can be gone on from.
func (r *run) remoteMarks(target *remoteTarget, temporary string, from *source) *marks {
	if from.file == nil || !from.before.Mode().IsRegular() {
		return nil
	}
	return &marks{target.path, mark{Temporary: temporary,
		SourceSize: from.before.Size(), SourceTime: from.before.ModTime(), SourceID: sourceID(from.before)}}
}

// localMarks is what is noted of a download; nil where nothing can be gone on from.
func (r *run) localMarks(t *localTarget, before *usftp.FileStat) *marks {
	if before == nil || !before.HasSize() || !before.HasTimes() {
		return nil
	}
	return &marks{t.path, mark{Temporary: t.join(t.temporary), SourceSize: int64(before.Size),
		SourceTime: before.ModTime()}}
}

// keep notes what a try has left.
func (r *run) keep(m *marks, synced bool) {
	if m == nil {
		return
	}
	m.mark.Bytes, m.mark.Synced = r.result.Bytes, synced
	if r.saveMark(m.target, m.mark) {
		r.resumable = true
		r.detail += "; " + resumeHint
	}
}
