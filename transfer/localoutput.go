package transfer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// localOutput is a file on this machine being written. It lies in root, the directory that holds
// the target: links in the path given by the user are followed, links below it are not.
type localOutput struct {
	location
	end     *localTarget
	entry   *entry
	root    *os.Root
	release func() // of root
	base    string // of the target, in root
	file    *os.File
	free    func() // makes writes to file interruptible no longer
	over    bool   // an old file is written over in place
}

// inRoot is the name in root of what is being written.
func (o *localOutput) inRoot() string {
	if o.temp != "" {
		return filepath.Base(o.temp)
	}
	return o.base
}

// open opens the directory that holds the target.
func (o *localOutput) open() (err error) {
	if o.root != nil {
		return nil
	}
	if o.entry != nil {
		o.root, o.release, err = o.end.root.Open(o.entry.dir.rel)
		return err
	}
	if o.root, err = os.OpenRoot(filepath.Dir(o.name)); err == nil {
		o.release = func() { o.root.Close() }
	}
	return err
}

func (o *localOutput) close() {
	if o.free != nil {
		o.free()
	}
	if o.file != nil {
		o.file.Close()
	}
	if o.root != nil {
		o.release()
		o.root = nil
	}
}

// lookBelow examines a path below the target of a tree. A file with other names (hard links) is
// written in place, as a copy of a single file is. A sync replaces it: the source may have other
// contents under another of these names, and the names outside the target belong to somebody else,
// often to a snapshot of it.
func (o *localOutput) lookBelow() error {
	if err := o.open(); err != nil {
		return err
	}
	err := o.look(o.root.Lstat(o.base))
	o.direct = !o.entry.dir.tree.rules.relinks && o.info != nil && localfs.Links(o.info) > 1
	return err
}

// find examines the target of a single file: a directory is entered, a symbolic link followed.
func (o *localOutput) find(c *fileCopy) error {
	name := o.end.job.route.Target
	c.name = filepath.Base(name)
	slash := name != "" && os.IsPathSeparator(name[len(name)-1])
	if err := o.location.find(c, name, slash, localfs.CheckName, os.Stat); err != nil {
		return err
	}
	if o.regular() { // /dev/stdout may lead to a pipe, which has no name
		resolved, err := localfs.FollowLinks(o.name)
		if err != nil {
			return err
		}
		o.name = resolved
	}
	o.base = filepath.Base(o.name)
	o.direct = !o.regular() || o.info != nil && localfs.Links(o.info) > 1
	c.result.Target = o.name
	return o.open()
}

// regular reports whether the target is a file or will be one, not a pipe or a device.
func (o *localOutput) regular() bool { return o.info == nil || o.info.Mode().IsRegular() }

// rereads opens the file being written, or the existing target.
func (o *localOutput) rereads(*fileCopy, *input) reopen {
	if !o.regular() {
		return nil
	}
	name := o.inRoot()
	return func() (io.ReaderAt, func(), error) {
		if err := o.open(); err != nil {
			return nil, nil, err
		}
		f, err := o.root.Open(name)
		if err != nil {
			return nil, nil, err
		}
		return f, func() { f.Close() }, nil
	}
}

func (o *localOutput) holds(c *fileCopy, in *input) (same, known bool) { return in.holds() }

func (o *localOutput) verify(c *fileCopy, in *input) error { return in.verify(o.rereads(c, in)) }

func (o *localOutput) same(_ *fileCopy, in *input) error {
	source := in.info().Local
	if source != nil && o.info != nil && os.SameFile(source, o.info) {
		return errSameFile
	}
	return nil
}

func (o *localOutput) finishCommit(*fileCopy) (done bool, err error) { return false, nil }

// create creates the temporary file, or opens the target if it is to be written in place.
func (o *localOutput) create(c *fileCopy, in *input) error {
	if err := in.ready(); err != nil {
		return err
	}
	c.sized(in)
	err := o.open()
	if err == nil {
		err = o.createIn(c, in.info())
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok && o.temp == "" && path.Path == o.base {
		err = &fs.PathError{Op: path.Op, Path: o.name, Err: path.Err}
	}
	return err
}

func (o *localOutput) createIn(c *fileCopy, source *endpoint.Info) (err error) {
	perm := fs.FileMode(0o666)
	if source.HasMode {
		perm = c.options.perm(source)
	}
	if !o.direct && o.end.atomic(c) {
		private := perm
		if o.info != nil || c.options.preservesMode(source) {
			private = 0o600
		}
		temporary := c.token.Name(o.base)
		path := filepath.Join(filepath.Dir(o.name), temporary)
		c.journal.noteBefore(c, path)
		o.file, err = o.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		c.attempts.made = temporary // without the directory: os.Root names files by a path in it
		if err == nil {
			o.temp = path
			return nil
		}
		if err := o.end.fallBack(c, err); err != nil {
			return err
		}
	}
	if c.options.Placement == PlaceAtomic {
		return &fs.PathError{Op: "replace", Path: o.name,
			Err: errors.New("it is not a regular file with one name and can only be written in place")}
	}
	if c.entry != nil {
		o.file, err = o.openBelow(perm)
	} else {
		o.file, err = localfs.OpenWaiting(c.ctx, func() (*os.File, error) {
			if o.regular() {
				return o.root.OpenFile(o.base, os.O_WRONLY|os.O_CREATE, perm)
			}
			return os.OpenFile(o.name, os.O_WRONLY, 0)
		})
	}
	if err == nil && o.regular() {
		err = o.openedOver(source)
	}
	switch {
	case err != nil:
	case !o.regular():
		o.free = localfs.Interruptible(c.ctx, o.file)
	case c.options.Placement == PlaceDirect:
	case o.direct:
		c.warn("the target has other names (hard links): it is written in place")
	default:
		o.end.noteNameRefused(c, o.info == nil)
	}
	return err
}

// openBelow opens a file below the target of a tree for writing in place, provided it is still what
// it was found to be. It follows no link, whoever put it there: a hostile server may send a link
// and then a file of the same name. A link is replaced by the file, as a rename would. A new file
// is created exclusively; an existing regular file may stem from an earlier attempt. os.Root alone
// would keep writes inside the target, but follow links within it.
func (o *localOutput) openBelow(perm fs.FileMode) (*os.File, error) {
	info, err := o.root.Lstat(o.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return o.root.OpenFile(o.base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return nil, inTheWay(o.name, info.Mode())
	}
	freed, err := o.entry.backups().aside(o.entry, info.Mode(),
		func() error { return o.root.Remove(o.base) })
	switch {
	case err != nil:
		return nil, err
	case freed:
		return o.root.OpenFile(o.base, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	}
	file, err := o.root.OpenFile(o.base, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	now, err := file.Stat()
	if err == nil && (!os.SameFile(now, info) || o.info != nil && !os.SameFile(now, o.info)) {
		err = &fs.PathError{Op: "write", Path: o.base, Err: endpoint.ErrReplaced}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// openedOver looks at the file that was opened to be written in place. An old file is emptied only
// if the source is a file of this machine and another one. The source on a host may be this very
// file: then it must keep its contents, and seal truncates it to its new size.
func (o *localOutput) openedOver(source *endpoint.Info) error {
	now, err := o.file.Stat()
	switch {
	case err != nil:
		return err
	case source.Local != nil && os.SameFile(now, source.Local):
		return errSameFile
	case now.Mode().IsRegular() && now.Size() > 0 && source.Local != nil:
		return o.file.Truncate(0)
	}
	o.over = now.Mode().IsRegular() && now.Size() > 0
	return nil
}

// left reports whether an earlier run for this target may have left a file of this name.
func (o *localOutput) left(name string) bool {
	return strings.HasPrefix(filepath.Base(name), localfs.TempPrefix(o.base))
}

func (o *localOutput) discard(name string) error {
	if err := o.open(); err != nil {
		return err
	}
	return o.root.Remove(filepath.Base(name))
}

func (o *localOutput) restore(string) error { return nil } // a rename replaces files here

// resume opens what an earlier run left and proves it by the source's hash, or drops the end of it
// that may not have reached the disk.
func (o *localOutput) resume(c *fileCopy, in *input, m *mark) (offset int64, err error) {
	name := filepath.Base(m.Temporary)
	if err := o.open(); err != nil {
		return 0, err
	}
	file, err := o.root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	if offset, err = proveLocal(c, file, in, m); err == nil {
		err = file.Truncate(offset)
	}
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return 0, err
	}
	in.same.inherit(m)
	o.file, o.temp, c.attempts.made = file, filepath.Join(filepath.Dir(o.name), name), name
	return offset, nil
}

func proveLocal(c *fileCopy, file *os.File, in *input, m *mark) (offset int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() || localfs.Links(info) > 1 || info.Size() < m.Bytes {
		return 0, errors.New("it was replaced")
	}
	if m == c.journal.left { // this run's own attempt
		return m.Bytes, nil
	}
	same, known := in.begins(file, m.Bytes)
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

func (o *localOutput) fill(c *fileCopy, in *input) error {
	to := sink{Writer: o.file, reread: o.rereads(c, in), over: o.over}
	if to.reread != nil {
		to.file = o.file
	}
	if o.temp != "" && o.info != nil {
		to.old = func() (*os.File, error) { return o.root.Open(o.base) }
	}
	n, err := in.pour(to)
	c.result.Bytes = c.result.Resumed + n
	return err
}

// finalize cuts off what is left of an old file.
func (o *localOutput) finalize(c *fileCopy, _ *input) error {
	if !o.over {
		return nil
	}
	return o.file.Truncate(c.result.Bytes)
}

// commit sets the file's attributes and gives it its name. A pipe or a device, which may be
// /dev/null, keeps its own.
func (o *localOutput) commit(c *fileCopy, in *input) (err error) {
	f := endpoint.Finish{Flush: c.options.Sync}
	if o.regular() {
		if f.Set, err = o.attrs(c, in.info()); err != nil {
			return err
		}
	}
	w := endpoint.LocalWriter{File: o.file, In: o.root, Base: o.inRoot()}
	done, err := w.Finish(c.ctx, &f)
	if err == nil && !(done.Times && !c.options.Preserve) {
		err = done.NotSet
	}
	if err != nil {
		return err
	}
	if o.temp == "" {
		return nil
	}
	err = o.root.Rename(o.inRoot(), o.base)
	if err != nil {
		c.result.LeftBehind = o.temp
		c.detail = "all of the data is in " + o.temp
		// most likely the directory was removed
		if _, lookErr := o.root.Lstat(o.inRoot()); errors.Is(lookErr, fs.ErrNotExist) {
			c.result.LeftBehind = ""
			c.detail = "all of the data was in " + o.temp + ", which is gone"
		}
		return err
	}
	if o.entry == nil && endpoint.Moved(o.root, filepath.Dir(o.name)) { // a tree's are left
		err = &fs.PathError{Op: "write", Path: filepath.Dir(o.name), Err: endpoint.ErrWentAlong}
	}
	return err
}

// attrs returns the attributes to set. What the new file keeps of an old one it is given.
func (o *localOutput) attrs(c *fileCopy, source *endpoint.Info) (set usftp.NewAttrs, err error) {
	if (c.options.Preserve || c.entry != nil) && source.HasTimes && !c.options.NoTimes {
		set.SetTimes = true
		set.Atime, set.Mtime = source.Times()
	}
	if err = c.options.addOwner(&set, source.Owner); err != nil {
		return set, err
	}
	if c.options.preservesMode(source) {
		set.SetMode, set.Mode = true, c.options.perm(source)
		return set, nil
	}
	if o.info == nil || o.temp == "" {
		return set, nil
	}
	set.SetMode, set.Mode = true, o.info.Mode()
	if c.options.Owners {
		set.Mode &^= fs.ModeSetuid | fs.ModeSetgid
	} else if err := localfs.OwnerOf(o.info).Keep(o.file); err != nil {
		c.warn("the new file cannot be given the owner of the old one: " + err.Error())
		set.Mode &^= fs.ModeSetuid | fs.ModeSetgid // its owner never agreed to that
	}
	if err := localfs.KeepACL(o.root, o.base, o.file); err != nil {
		c.warn("the new file cannot be given the access control list of the old one, and gives " +
			"its group no access: " + err.Error())
		set.Mode &^= 0o070
	}
	return set, nil
}

func (o *localOutput) truncate(c *fileCopy, n int64) (ok, synced bool) {
	return endpoint.LocalWriter{File: o.file}.Keep(c.ctx, n)
}

func (o *localOutput) remove(*fileCopy) {
	if o.temp != "" {
		o.root.Remove(o.inRoot())
	}
}

// sparseFile is a local file in which blocks of zeros become holes.
type sparseFile struct {
	file *os.File
	over bool // it was not empty
}

func (s sparseFile) WriteAt(p []byte, off int64) (int, error) {
	if s.over {
		return localfs.WriteSparseOver(s.file, p, off)
	}
	return localfs.WriteSparse(s.file, p, off)
}

// A sink is how data reaches a target on this machine: a stream, or a regular file that can be
// written at any offset.
type sink struct {
	io.Writer
	file   *os.File // nil unless it is a regular file
	reread reopen   // opens the file for reading, nil unless it is a regular file
	over   bool     // the file is an old one that is written over

	// old opens the file to be replaced, nil if there is none
	old func() (*os.File, error)
}

// open returns the writers to use, for data in order and in any order. Blocks of zeros become holes
// if Options.Sparse is set.
func (s sink) open(c *fileCopy) (io.Writer, io.WriterAt, error) {
	if s.file == nil {
		return s.Writer, nil, nil
	}
	if !c.options.Sparse {
		return s.file, s.file, nil
	}
	if c.size > 0 { // a hash may read from it before all has arrived
		if err := s.end(c, c.size); err != nil {
			return nil, nil, err
		}
	}
	sparse := sparseFile{s.file, s.over}
	return io.NewOffsetWriter(sparse, c.result.Resumed), sparse, nil
}

// end sets the file's size, since it may end in a hole. An old file that is longer is truncated
// only when the copy is sealed.
func (s sink) end(c *fileCopy, size int64) error {
	if s.file == nil || !c.options.Sparse {
		return nil
	}
	if s.over {
		if info, err := s.file.Stat(); err != nil || info.Size() >= size {
			return err
		}
	}
	return s.file.Truncate(size)
}

// small writes a file held in memory.
func (s sink) small(c *fileCopy, data []byte) error {
	if s.file == nil || !c.options.Sparse {
		_, err := s.Write(data)
		return err
	}
	if _, err := (sparseFile{s.file, s.over}).WriteAt(data, 0); err != nil {
		return err
	}
	return s.end(c, int64(len(data)))
}
