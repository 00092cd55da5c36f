package hooks

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// Guard returns a user's view of a backend in one of their folders: files appear only if the hooks
// that are asked about this user accept them. Without such hooks it returns the backend itself.
func (h *Hooks) Guard(user, folder string, files server.FS) (server.FS, error) {
	g := &guard{user: user, folder: folder, all: h}
	for _, one := range h.gates {
		if one.wants(Accept, user) {
			g.gates = append(g.gates, one)
		}
	}
	if len(g.gates) == 0 {
		return files, nil
	}
	switch files := files.(type) {
	case *objectfs.FS:
		return &guardedObjects{files, g}, nil
	case *osfs.FS:
		if files.UploadsAtomically() {
			return &guardedDirectory{files, g, h.openIn(files)}, nil
		}
		return nil, fmt.Errorf("hook %s could not keep files from being seen before they are "+
			"checked:"+
			` let uploads be "atomic", or let users = [...] of the hook leave out %s`,
			g.gates[0].Name, user)
	}
	return nil, fmt.Errorf("hook %s cannot check files here", g.gates[0].Name)
}

// guard asks the hooks about the files of one user.
type guard struct {
	user   string
	folder string
	all    *Hooks
	gates  []*gatekeeper
}

var (
	errInPlace = &server.StatusError{Code: wire.PermissionDenied,
		Message: "files are checked before they appear: send this one as a whole"}
	errSecondWriter = &server.StatusError{Code: wire.Failure,
		Message: "somebody else is writing this file, and files are checked as a whole"}
)

// event returns the event that the hooks are asked about.
func (g *guard) event(name string, size int64) Event {
	name = path.Join("/", g.folder, name)
	root, folder := g.all.Root(g.user, name)
	e := newEvent(Accept, server.Event{Time: time.Now(), User: g.user, Path: name, Written: size},
		root, folder)
	e.complete(rand.Text(), false)
	return e
}

// ask asks all hooks, until one refuses.
func (g *guard) ask(session context.Context, name string, contents io.ReaderAt, size int64,
	why error) error {
	e := g.event(name, size)
	for _, one := range g.gates {
		if err := one.ask(session, e, contents, size, why); err != nil {
			return err
		}
	}
	return nil
}

// unasked reports whether an OPEN would make a file, and no CLOSE would ask about it. One that
// truncates is for writing here, too.
func unasked(flags uint32) bool { return flags&(wire.OpenWrite|wire.OpenCreate) == wire.OpenCreate }

// guardedObjects is guarded object storage.
type guardedObjects struct {
	*objectfs.FS
	guard *guard
}

// Open implements [server.Opener].
func (g *guardedObjects) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if attrs.Has(wire.AttrSize) || unasked(flags) {
		return nil, errInPlace
	}
	file, err := g.FS.Open(ctx, name, flags, attrs)
	if err != nil || flags&wire.OpenWrite == 0 {
		return file, err
	}
	longest := g.guard.longest()
	w := &guardedObject{objectWriter: file.(objectWriter), all: g, session: ctx, name: name,
		appends: flags&wire.OpenAppend != 0,
		spool:   &spool{budget: longest.spooled, user: g.guard.user, most: longest.MaxSize}}
	info, err := w.Stat()
	if err == nil && info.Size() > 0 {
		err = errInPlace // it is stored, or was closed before, or would be resumed
	}
	if err != nil {
		return nil, errors.Join(err, w.objectWriter.Abandon())
	}
	return w, nil
}

// longest returns the hook that checks the longest files.
func (g *guard) longest() *gatekeeper {
	return slices.MaxFunc(g.gates, func(a, b *gatekeeper) int {
		return cmp.Compare(a.MaxSize, b.MaxSize)
	})
}

// Setstat implements [server.Setstater]: a checked file keeps its length.
func (g *guardedObjects) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) {
		return errInPlace
	}
	return g.FS.Setstat(ctx, name, attrs)
}

type objectWriter interface {
	server.File
	io.WriterAt
	server.FileCounter
	server.FileDiscarder
	server.FileStater
	server.FileSetstater
}

// guardedObject is a file that is written to object storage.
type guardedObject struct {
	objectWriter
	all     *guardedObjects
	session context.Context
	name    string
	appends bool // all writes go to the end, and come one at a time
	spool   *spool
}

// WriteAt implements io.WriterAt. The copy gets the bytes that the object gets, where it gets them.
func (w *guardedObject) WriteAt(p []byte, offset int64) (int, error) {
	if w.appends {
		info, err := w.Stat()
		if err != nil {
			return 0, err
		}
		offset = info.Size()
	}
	n, err := w.objectWriter.WriteAt(p, offset)
	w.spool.WriteAt(p[:n], offset)
	return n, err
}

// Setstat implements [server.FileSetstater].
func (w *guardedObject) Setstat(attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) && attrs.Size <= uint64(w.spool.most) && w.spool.tooLong() {
		return errInPlace // there is no copy any more of what would be left
	}
	err := w.objectWriter.Setstat(attrs)
	if err == nil && attrs.Has(wire.AttrSize) {
		w.spool.resize(int64(attrs.Size))
	}
	return err
}

// Close implements io.Closer: the file appears if it is accepted.
func (w *guardedObject) Close() error {
	defer w.spool.close()
	contents, size, err := w.spool.contents()
	if err = w.all.guard.ask(w.session, w.name, contents, size, err); err != nil {
		w.objectWriter.Discard()
		return err
	}
	return w.objectWriter.Close()
}

// Abandon implements [server.FileAbandoner]. No parts are kept to resume from: the rest alone could
// not be checked.
func (w *guardedObject) Abandon() error { return w.Discard() }

// Discard implements [server.FileDiscarder].
func (w *guardedObject) Discard() error {
	defer w.spool.close()
	return w.objectWriter.Discard()
}

// guardedDirectory is a guarded directory, in which files appear when they are closed.
type guardedDirectory struct {
	*osfs.FS
	guard *guard
	open  *openFiles
}

// Open implements [server.Opener]. A file has one writer, so that nobody changes the checked
// contents, and is written where nobody sees it.
func (g *guardedDirectory) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if unasked(flags) {
		return nil, errInPlace
	}
	if flags&wire.OpenWrite == 0 {
		return g.FS.Open(ctx, name, flags, attrs)
	}
	g.open.mu.Lock()
	defer g.open.mu.Unlock()
	file, err := g.FS.OpenUpload(ctx, name, flags, attrs)
	if errors.Is(err, osfs.ErrInPlace) {
		err = errInPlace
	}
	if err != nil {
		return nil, err
	}
	w := &guardedFile{hiddenFile: file.(hiddenFile), all: g, session: ctx, name: name}
	if err := g.open.add(w); err != nil {
		return nil, errors.Join(err, w.hiddenFile.Abandon())
	}
	return w, nil
}

// Setstat implements [server.Setstater]: a checked file keeps its length.
func (g *guardedDirectory) Setstat(ctx context.Context, name string, attrs wire.Attrs) error {
	if attrs.Has(wire.AttrSize) {
		return errInPlace
	}
	return g.FS.Setstat(ctx, name, attrs)
}

// hiddenFile is a file of osfs that appears when it is closed.
type hiddenFile interface {
	server.File
	server.FileAbandoner
	io.ReaderAt
	io.WriterAt
	server.FileStater
	server.FileSetstater
	server.FileSyncer
	server.FileStatVFSer
	server.FileCopier
	server.FileInSystem
	server.FileEnder
}

// guardedFile is a file that is written in a directory.
type guardedFile struct {
	hiddenFile
	all     *guardedDirectory
	session context.Context
	name    string
	info    os.FileInfo
}

// CopyFrom implements [server.FileCopier].
func (w *guardedFile) CopyFrom(ctx context.Context, source server.File, from, length,
	to int64) (int64, error) {
	if guarded, ok := source.(*guardedFile); ok {
		source = guarded.hiddenFile
	}
	return w.hiddenFile.CopyFrom(ctx, source, from, length, to)
}

// Close implements io.Closer: the file appears if it is accepted.
func (w *guardedFile) Close() error {
	_, err := w.End(server.Closed)
	return err
}

// Abandon implements [server.FileAbandoner].
func (w *guardedFile) Abandon() error {
	_, err := w.End(server.Abandoned)
	return err
}

// End implements [server.FileEnder]. Nothing of a refused file is kept.
func (w *guardedFile) End(how server.Ending) (gone fs.FileInfo, err error) {
	var refused error
	if how == server.Closed {
		info, err := w.Stat()
		if err == nil {
			err = w.all.guard.ask(w.session, w.name, w.hiddenFile, info.Size(), nil)
		}
		if refused = err; err != nil {
			how = server.Discarded
		}
	}
	w.all.open.mu.Lock()
	defer w.all.open.mu.Unlock()
	w.all.open.remove(w)
	gone, err = w.hiddenFile.End(how)
	return gone, cmp.Or(refused, err)
}

// openFiles are the files in a directory that are being written, and will be checked. The lock is
// held while one is opened or closed: a second handle, even one that is refused, would keep the
// file from appearing.
type openFiles struct {
	mu  sync.Mutex
	all []*guardedFile
}

// openIn returns the open files of a directory, which all users who see it share. It keeps no
// directory open.
func (h *Hooks) openIn(files *osfs.FS) *openFiles {
	h.guarding.Lock()
	defer h.guarding.Unlock()
	if h.open == nil {
		h.open = map[weak.Pointer[osfs.FS]]*openFiles{}
	}
	at := weak.Make(files)
	if h.open[at] == nil {
		h.open[at] = &openFiles{}
		runtime.AddCleanup(files, h.forget, at)
	}
	return h.open[at]
}

func (h *Hooks) forget(at weak.Pointer[osfs.FS]) {
	h.guarding.Lock()
	defer h.guarding.Unlock()
	delete(h.open, at)
}

// add makes w the only writer of its file, if it has none.
func (o *openFiles) add(w *guardedFile) (err error) {
	if w.info, err = w.SystemFile().Stat(); err != nil {
		return err
	}
	for _, other := range o.all {
		if os.SameFile(w.info, other.info) {
			return errSecondWriter
		}
	}
	o.all = append(o.all, w)
	return nil
}

func (o *openFiles) remove(w *guardedFile) {
	if i := slices.Index(o.all, w); i >= 0 {
		o.all = slices.Delete(o.all, i, i+1)
	}
}
