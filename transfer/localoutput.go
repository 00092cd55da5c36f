package transfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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
	file    *os.File
	over    bool // an old file is written over in place
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
	err := o.look(o.lstat(o.name))
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
	o.stream = o.info != nil && !o.info.Mode().IsRegular()
	// NUL is meant for the device, as /dev/null is elsewhere, and NUL.txt is not.
	base := filepath.Base(o.name)
	if err := localfs.CheckReserved(base); err != nil &&
		(!o.stream || strings.Contains(base, ".")) {
		return &fs.PathError{Op: "write", Path: o.name, Err: err}
	}
	if o.stream {
		o.direct, o.stored = true, nil // nothing of it is kept, and it is read by others
		return nil                     // /dev/stdout may lead to a pipe, which has no name
	}
	resolved, err := localfs.FollowLinks(o.name)
	if err != nil {
		return err
	}
	o.name, o.direct = resolved, o.info != nil && localfs.Links(o.info) > 1
	return o.open()
}

// reopen opens the file being written, or the existing target.
func (o *localOutput) reopen() (io.ReaderAt, func(), error) {
	f, err := o.openAt(o.written(), os.O_RDONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

func (o *localOutput) create(c *fileCopy, in *input) error {
	if err := in.ready(); err != nil {
		return err
	}
	c.sized(in)
	if err := o.open(); err != nil {
		return err
	}
	return o.location.create(c, in.info())
}

func (o *localOutput) openFile(_ *fileCopy, name string, flag int, perm fs.FileMode) (err error) {
	o.file, err = o.openAt(name, flag, perm)
	return err
}

func (o *localOutput) openAt(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if err := o.open(); err != nil {
		return nil, err
	}
	f, err := o.root.OpenFile(filepath.Base(name), flag, perm)
	return f, about(name, err)
}

// about makes an error of an os.Root one about a path.
func about(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		path.Path = name
	}
	return err
}

func (*localOutput) explain(err error) error { return err }

func (o *localOutput) lstat(name string) (fs.FileInfo, error) {
	if err := o.open(); err != nil {
		return nil, err
	}
	info, err := o.root.Lstat(filepath.Base(name))
	return info, about(name, err)
}

// overwrite opens no other file than old below the target of a tree, whoever put it there: a
// hostile server may send a link and then a file of the same name. os.Root alone would keep writes
// inside the target, but follow links within it.
func (o *localOutput) overwrite(c *fileCopy, source *endpoint.Info, old fs.FileInfo, flag int,
	perm fs.FileMode) (err error) {
	if c.entry != nil && old != nil {
		flag, perm = os.O_WRONLY, 0
	}
	if err = o.openFile(c, o.name, flag, perm); err != nil {
		return err
	}
	if o.direct && c.options.Placement != PlaceDirect {
		c.warn("the target has other names (hard links): it is written in place")
	}
	return o.opened(c, source, old)
}

// opened looks at the file that was opened to be written in place. An old file is emptied only if
// the source is a file of this machine and another one. The source on a host may be this very file:
// then it must keep its contents, and finalize truncates it to its new size.
func (o *localOutput) opened(c *fileCopy, source *endpoint.Info, old fs.FileInfo) error {
	now, err := o.file.Stat()
	switch {
	case err != nil:
		return err
	case c.entry != nil && old != nil &&
		(!os.SameFile(now, old) || o.info != nil && !os.SameFile(now, o.info)):
		return &fs.PathError{Op: "write", Path: o.name, Err: endpoint.ErrReplaced}
	case source.Local != nil && os.SameFile(now, source.Local):
		return errSameFile
	case now.Mode().IsRegular() && now.Size() > 0 && source.Local != nil:
		return o.file.Truncate(0)
	}
	o.over = now.Mode().IsRegular() && now.Size() > 0
	return nil
}

func (o *localOutput) discard(_ context.Context, name string) error {
	if err := o.open(); err != nil {
		return err
	}
	return about(name, o.root.Remove(filepath.Base(name)))
}

// prove proves what an earlier run left by the source's hash, or drops the end of it that may not
// have reached the disk.
func (o *localOutput) prove(c *fileCopy, in *input, m *mark) (offset int64, err error) {
	if offset, err = proveLocal(c, o.file, in, m); err == nil {
		err = o.file.Truncate(offset)
	}
	if err == nil {
		_, err = o.file.Seek(offset, io.SeekStart)
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
	to := sink{Writer: o.file, reread: o.stored,
		file: endpoint.LocalWriter{File: o.file, Sparse: c.options.Sparse, Over: o.over}}
	if o.temp != "" && o.info != nil {
		to.old = func() (*os.File, error) { return o.openAt(o.name, os.O_RDONLY, 0) }
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

// commit sets the file's attributes and gives it its name.
func (o *localOutput) commit(c *fileCopy, in *input) (err error) {
	f := endpoint.Finish{Flush: c.options.Sync}
	if f.Set, err = o.attrs(c, in.info()); err != nil {
		return err
	}
	done, err := o.writer().Finish(c.ctx, &f)
	if err == nil && !(done.Times && !c.options.Preserve) {
		err = done.NotSet
	}
	if err != nil {
		return err
	}
	if o.temp == "" {
		return nil
	}
	err = localfs.Replace(o.root, filepath.Base(o.temp), filepath.Base(o.name))
	if err != nil {
		c.result.LeftBehind = o.temp
		c.detail = "all of the data is in " + o.temp
		// most likely the directory was removed
		if _, lookErr := o.lstat(o.temp); errors.Is(lookErr, fs.ErrNotExist) {
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

// kept gives the new file what it keeps of the old one besides the mode.
func (o *localOutput) kept(c *fileCopy) fs.FileMode {
	mode := o.info.Mode()
	var err error
	if !c.options.Owners {
		err = localfs.OwnerOf(o.info).Keep(o.file)
	}
	if err != nil {
		c.warn("the new file cannot be given the owner of the old one: " + err.Error())
		mode &^= fs.ModeSetuid | fs.ModeSetgid // its owner never agreed to that
	}
	if err = localfs.KeepACL(o.root, filepath.Base(o.name), o.file); err != nil {
		c.warn("the new file cannot be given the access control list of the old one, and gives " +
			"its group no access: " + err.Error())
		mode &^= 0o070
	}
	return mode
}

func (o *localOutput) writer() endpoint.Writer {
	return endpoint.LocalWriter{File: o.file, In: o.root, Base: filepath.Base(o.written())}
}

// A sink is how data reaches a target on this machine: a stream, or a regular file that can be
// written at any offset.
type sink struct {
	io.Writer
	file   endpoint.LocalWriter // zero for a stream
	reread reopen               // opens the file for reading, nil for a stream

	// old opens the file to be replaced, nil if there is none
	old func() (*os.File, error)
}

// open returns the writers to use, for data in order and in any order.
func (s sink) open(c *fileCopy) (io.Writer, io.WriterAt, error) {
	if s.file.File == nil {
		return s.Writer, nil, nil
	}
	if !s.file.Sparse {
		return s.file.File, s.file.File, nil
	}
	if c.size > 0 { // a hash may read from it before all has arrived
		if err := s.file.Resize(c.size); err != nil {
			return nil, nil, err
		}
	}
	return io.NewOffsetWriter(s.file, c.result.Resumed), s.file, nil
}

// small writes a file held in memory.
func (s sink) small(data []byte) error {
	if !s.file.Sparse {
		_, err := s.Write(data)
		return err
	}
	if _, err := s.file.WriteAt(data, 0); err != nil {
		return err
	}
	return s.file.Resize(int64(len(data)))
}
