package server

import (
	"cmp"
	"context"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/server/internal/kept"
	"github.com/usftp/usftp/server/internal/whole"
	"github.com/usftp/usftp/wire"
)

// The requests [wire.ExtPutFiles] and [wire.ExtGetFiles], which docs/small-files.md describes. They
// take the same steps for each file as a client's single requests would, each subject to the
// policy, the rules of the file, the quota, the gate and the events as usual.

// roomPerFile is the space for a file's answer besides its contents: a status with a short message,
// or the attributes.
const roomPerFile = 96

// beginning is more than the length of the reply before the first answer.
const beginning = 64

// statusSize is the length of an OK status, which precedes a file's contents.
const statusSize = 4 + 4 + 4

// The answers about the most files fit in the buffer for a reply.
var _ [largeBuffer - wire.MaxPacket]struct{}
var _ [smallBuffer - beginning - wire.MostFiles*roomPerFile]struct{}

var (
	errManyFiles = &StatusError{Code: wire.BadMessage, Message: "too many files in one request"}
	errTemporary = &StatusError{Code: wire.BadMessage, Message: "invalid temporary name"}
	errFileFlags = &StatusError{Code: wire.OpUnsupported, Message: "unknown flags"}
	errOtherSize = &StatusError{Code: wire.Failure, Message: "the file has another size"}
)

// onFiles reports whether a request concerns several small files. Such requests are not ordered
// among themselves, as each file is replaced at once.
func (o operation) onFiles() bool { return o == opPutFiles || o == opGetFiles }

// takesSteps reports whether the backend opens files, and the policy allows these steps of a
// request for several files.
func (v *View) takesSteps(steps ...operation) bool {
	for _, o := range steps {
		if v.permit(o) != nil {
			return false
		}
	}
	_, ok := v.fs.(Opener)
	return ok
}

// parseFiles checks all files of a request, which are parsed again when it runs. For the order of
// requests its place is the directory above all of them.
func (r *request) parseFiles(v *View, in *wire.Reader) {
	r.data, r.changes = in.Rest(), r.op == opPutFiles
	n, room := 0, beginning
	for rest := r.data; len(rest) > 0 && r.bad == nil; n++ {
		name, size, err := "", 0, error(nil)
		if r.op == opPutFiles {
			var f wire.PutFile
			rest, err = f.Parse(rest)
			name = f.Path
			if !validTemporary(v, &f) {
				r.bad = errTemporary
			}
			if f.Flags&^wire.PutFsync != 0 || (f.Created.Flags|f.Set.Flags)&wire.AttrSize != 0 {
				r.bad = errFileFlags
			}
			if f.Temporary != "" {
				r.checkPath(v, r.checkName(beside(name, f.Temporary)))
			}
		} else {
			var f wire.GetFile
			rest, err = f.Parse(rest)
			name, size = f.Path, int(f.Size)
		}
		if err != nil {
			r.bad = errBadMessage
			return
		}
		name = r.checkPath(v, r.checkName(name))
		if strings.Count(name, "/") >= strings.Count(r.path, "/") {
			r.path = name // the longest to resolve, and the one that is logged
		}
		dir := path.Dir(placeOf(name))
		for n > 0 && dir != r.place && !strings.HasPrefix(dir, r.place+"/") && r.place != "/" {
			r.place = path.Dir(r.place)
		}
		if n == 0 {
			r.place = dir
		}
		room += roomPerFile + size
	}
	if r.charge = bufferSize(room); n > wire.MostFiles || room > wire.MaxPacket {
		r.bad = errManyFiles
	}
}

// beside returns the path of another name in the same directory.
func beside(name, other string) string {
	return name[:strings.LastIndexByte(name, '/')+1] + other
}

// validTemporary reports whether a file has a temporary name in its directory, or needs none.
func validTemporary(v *View, f *wire.PutFile) bool {
	switch name := f.Temporary; name {
	case "":
		return v.uploadsAtomically()
	case ".", "..":
		return false
	default:
		return !strings.Contains(name, "/") && name != path.Base(f.Path)
	}
}

// sideBySide is the number of files of a request that are worked on at once if they are slow.
const sideBySide = 4

// each calls f for each of n files. If one of them takes long, as with a bucket, the rest run side
// by side.
func each(n int, f func(i int)) {
	next := 0
	for slow := false; next < n && !slow; next++ {
		began := time.Now()
		f(next)
		slow = time.Since(began) > patience
	}
	var ahead atomic.Int64
	var all sync.WaitGroup
	for range min(sideBySide, n-next) {
		all.Go(func() {
			for i := next + int(ahead.Add(1)) - 1; i < n; i = next + int(ahead.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}

// putFiles answers opPutFiles.
func (w *worker) putFiles(ctx context.Context, s *session, r *request) {
	var files []wire.PutFile
	for rest := r.data; len(rest) > 0; {
		var f wire.PutFile
		rest, _ = f.Parse(rest)
		files = append(files, f)
	}
	ctx, end := kept.With(ctx)
	defer end()
	answers := make([]wire.FileStatus, len(files))
	each(len(files), func(i int) {
		defer s.caught() // it may have a goroutine of its own
		answers[i] = shortStatus(s.putFile(ctx, &files[i]))
	})
	reply := wire.ExtendedReply{}.Append(r.reply.Bytes()[:0], r.id)
	for _, answer := range answers {
		reply = answer.Append(reply)
	}
	w.send(s, r, wire.FinishFiles(reply))
}

// shortStatus returns a status with as much of its message as fits.
func shortStatus(err error) wire.FileStatus {
	status := statusOf(err)
	if status.Code == wire.OK {
		return wire.FileStatus{}
	}
	return wire.FileStatus{Code: status.Code,
		Message: strings.ToValidUTF8(
			status.Message[:min(len(status.Message), roomPerFile-statusSize)], "")}
}

// getFiles answers opGetFiles.
func (w *worker) getFiles(ctx context.Context, s *session, r *request) {
	type place struct {
		wire.GetFile
		memory []byte // in the reply, no earlier than the place of the contents there
		answer wire.GotFile
	}
	var files []place
	reply := wire.ExtendedReply{}.Append(r.reply.Bytes()[:0], r.id)
	memory := reply[len(reply)+statusSize : cap(reply)]
	for rest := r.data; len(rest) > 0; {
		var f place
		rest, _ = f.Parse(rest)
		f.memory = memory[:f.Size+1] // one byte more, to see the file's end
		memory = memory[f.Size+roomPerFile:]
		files = append(files, f)
	}
	ctx, end := kept.With(ctx)
	defer end()
	each(len(files), func(i int) {
		defer s.caught() // it may have a goroutine of its own
		f := &files[i]
		f.answer = s.getFile(ctx, f.Path, f.memory)
	})
	for i := range files {
		reply = files[i].answer.Append(reply)
	}
	w.send(s, r, wire.FinishFiles(reply))
}

// A step is a request on one file, as part of a request for several.
type step struct {
	s *session
	request
	open bool // the file of the handle is
}

// begin opens the file, unless the session has ended.
func (t *step) begin(ctx context.Context) error {
	if err := t.s.ctx.Err(); err != nil {
		return err
	}
	h, err := t.s.openReserved(func() (*handle, error) {
		file, err := t.s.view.open(ctx, t.path, t.flags, t.attrs)
		if err != nil {
			return nil, err
		}
		h := newBriefHandle(file, &t.request)
		if t.s.reports.Hashes {
			h.sums()
		}
		return h, nil
	})
	if err != nil {
		return err
	}
	t.handle, t.open = h, true
	t.s.reportOpened(h)
	return nil
}

// close closes the file, or abandons it for a reason.
func (t *step) close(reason error) error {
	t.open = false
	defer t.s.unreserveHandle()
	return t.s.closeHandle(t.handle, reason)
}

// closeLeft, which is deferred, closes the file if the backend panics before it is closed.
func (t *step) closeLeft() {
	if t.open {
		t.close(errNoClose)
	}
}

// may asks the policy and the rules of the file about another operation on it, and makes it the one
// to be logged.
func (t *step) may(o operation) error {
	t.op = o
	if err := t.s.view.permitTo(o, t.does()); err != nil {
		return err
	}
	return permitOn(t.handle.file, o, t.does())
}

// putFile writes one file.
func (s *session) putFile(ctx context.Context, f *wire.PutFile) error {
	t := &step{s: s, request: request{op: opOpen, path: s.view.Path(f.Path), attrs: f.Created,
		flags: wire.OpenWrite | wire.OpenCreate | wire.OpenExclusive}}
	err := t.put(ctx, f)
	if err != nil {
		s.refused(&t.request, err)
	}
	return err
}

// put writes the file under its temporary name, if it has one, and renames it. A failure leaves
// nothing behind, or nothing visible.
func (t *step) put(ctx context.Context, f *wire.PutFile) error {
	defer t.closeLeft()
	v, name := t.s.view, t.path
	if f.Temporary != "" {
		t.path = v.Path(beside(f.Path, f.Temporary))
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	err := t.fill(f)
	if err != nil {
		t.handle.failWrites(err)
	}
	err = cmp.Or(err, t.close(nil))
	if f.Temporary == "" {
		return err
	}
	err = cmp.Or(err, t.s.ctx.Err()) // nobody waits for it, and it may have been sent again
	if err == nil {
		t.op, t.path2 = opPosixRename, name
		err = v.PosixRename(ctx, t.path, t.path2)
	}
	if err != nil {
		t.remove(context.WithoutCancel(ctx))
	}
	return err
}

// fill gives the file its contents and attributes.
func (t *step) fill(f *wire.PutFile) error {
	t.data, t.length = f.Data, uint64(len(f.Data))
	err := t.may(opWrite)
	if err == nil {
		err = t.s.write(&t.request)
	}
	if err == nil {
		t.handle.turns.tell(func(sum *whole.Sum) { sum.Pass(f.Data, 0) })
	}
	if t.attrs = f.Set; err == nil && f.Set.Flags != 0 {
		if err = t.may(opFsetstat); err == nil {
			err = t.s.fsetstat(&t.request)
		}
	}
	if err == nil && f.Flags&wire.PutFsync != 0 {
		if err = t.may(opFsync); err == nil {
			err = t.s.fsync(t.handle)
		}
	}
	return err
}

// remove removes the temporary file, even if the client may not remove anything else: it could not
// have made the file visible to anybody.
func (t *step) remove(ctx context.Context) {
	v := t.s.view
	remover, ok := v.fs.(Remover)
	if !ok {
		return
	}
	end, err := v.reports.Begin(treeChanged(opRemove, t.path, "", nil))
	if err == nil {
		err = permitted(end, func() error {
			return v.quotaRemove(ctx, t.path,
				func(ctx context.Context) error { return remover.Remove(ctx, t.path) })
		})
	}
	v.changed(err, opRemove, t.path, "", nil)
}

// getFile reads one file, if it is regular and leaves the last byte of memory free.
func (s *session) getFile(ctx context.Context, name string, memory []byte) (answer wire.GotFile) {
	t := &step{s: s, request: request{op: opOpen, path: s.view.Path(name), flags: wire.OpenRead}}
	defer t.closeLeft()
	err := t.begin(ctx)
	if err == nil {
		answer.Data, err = t.readWhole(memory)
		if err == nil {
			err = t.stat(&answer.Attrs)
		}
		t.close(err) // of a file that cannot be sent whole nothing is sent
	}
	if err != nil {
		s.refused(&t.request, err)
		answer = wire.GotFile{FileStatus: shortStatus(err)}
	}
	return answer
}

// readWhole reads a file into memory that has room for one byte more than the file should have.
func (t *step) readWhole(p []byte) ([]byte, error) {
	if err := t.may(opRead); err != nil {
		return nil, err
	}
	if t.handle.readerAt == nil {
		return nil, errUnsupported
	}
	n, err := readAt(t.handle.readerAt, p, 0)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case err == nil || n != len(p)-1:
		return nil, errOtherSize
	}
	if err := moves(t.s.ctx, t.s.view.downloads, n); err != nil {
		return nil, err
	}
	t.handle.moved.Add(int64(n), 0)
	t.handle.turns.tell(func(sum *whole.Sum) {
		sum.Pass(p[:n], 0)
		sum.End(uint64(n))
	})
	return p[:n], nil
}

// stat describes the file.
func (t *step) stat(attrs *wire.Attrs) error {
	if err := t.may(opFstat); err != nil {
		return err
	}
	info, err := t.s.fstat(t.handle)
	if err == nil && !info.Mode().IsRegular() {
		err = errUnsupported
	}
	if err == nil {
		*attrs = plainAttrs(info)
	}
	return err
}
