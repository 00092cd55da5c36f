package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
)

// Local is the Place of this machine.
type Local struct{}

func (Local) Join(dir, name string) string { return filepath.Join(dir, name) }
func (Local) Conn() *pool.Conn             { return nil }
func (Local) Opener(*pool.Host) Opener     { return Local{} }

func (Local) Base(name string) string {
	for len(name) > 1 && os.IsPathSeparator(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	switch base := filepath.Base(name); base {
	case ".", "..", string(filepath.Separator):
		return "."
	default:
		return base
	}
}

func (Local) Identity(name string) (host, path string, ok bool) {
	path, err := filepath.Abs(name)
	return "", path, err == nil
}

func (Local) Lstat(name string) (Info, error) { return found(os.Lstat(name)) }

// Stat implements Place. The dot is for a directory that is mounted on demand: without it stat would
// describe the one beneath, and opening it would mount another.
func (Local) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err == nil && info.IsDir() && runtime.GOOS != "windows" {
		if in, err := os.Stat(name + "/."); err == nil {
			info = in
		}
	}
	return found(info, err)
}

// found converts the result of a stat.
func found(info fs.FileInfo, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	return OfFile(info), nil
}

func (Local) RealPath(name string) (string, error) {
	name, err := filepath.EvalSymlinks(name) // first, since Abs resolves ".." as text
	if err == nil {
		name, err = filepath.Abs(name)
	}
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	return filepath.ToSlash(name), err
}

func (Local) ReadLink(name string) (string, error) { return os.Readlink(name) }

func (Local) Mark(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	return localfs.ID(info), nil
}

func (Local) Volume(name string) [2]uint64 { return localfs.FileSystemID(name) }

func (Local) Cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), CleanupTime)
}

// List implements FS. An entry whose name leads elsewhere as part of a path, as other systems can
// create on Windows, must not be opened by it: its error says so.
func (Local) List(dir string, was *Info, _ func(), each func(string, Info, error) bool) error {
	in, err := openRoot(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	is, err := in.Stat(".")
	if err != nil {
		return err
	}
	if was != nil && !os.SameFile(was.Local, is) {
		return &fs.PathError{Op: "open", Path: dir, Err: ErrMoved}
	}
	whole, err := eachEntry(in, func(name string, i Info, err error) bool {
		if reserved := localfs.CheckReserved(name); reserved != nil && err == nil {
			err = &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: reserved}
		}
		return each(name, i, err)
	})
	if err == nil && whole { // otherwise entries may have been missed
		var now fs.FileInfo
		if now, err = os.Stat(dir); err == nil && !os.SameFile(now, is) {
			err = &fs.PathError{Op: "list", Path: dir, Err: ErrMoved}
		}
	}
	return err
}

// openRoot opens a directory. The dot is for a named pipe: without it OpenRoot would wait for a
// writer. On Windows, where it would not, a dot after \\?\ is a name like any other.
func openRoot(dir string) (*os.Root, error) {
	if dir = cmp.Or(dir, "."); runtime.GOOS != "windows" {
		dir += "/."
	}
	return os.OpenRoot(dir)
}

// moved reports whether an open directory has lost its path to another entry, or to none.
func moved(dir *os.Root, look func(string) (fs.FileInfo, error), name string) bool {
	opened, err := dir.Stat(".")
	if err != nil {
		return false
	}
	named, err := look(name)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(opened, named)
}

// listPiece is how many entries of a directory are read at a time.
const listPiece = 256

// eachEntry reads a directory until each returns false; whole is then false. It stats entries
// through the open directory, not by their paths: if the directory is renamed, or its file system
// unmounted, they would all seem to be gone. An entry that was really removed meanwhile comes with
// fs.ErrNotExist.
func eachEntry(in *os.Root, each func(string, Info, error) bool) (whole bool, err error) {
	dir, err := in.Open(".")
	if err != nil {
		return false, err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(listPiece)
		for _, name := range names {
			info, err := found(in.Lstat(name))
			if !each(name, info, err) {
				return false, nil
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func (Local) ReadSmall(name string, most int64) (data []byte, was Info, err error) {
	f, err := localfs.OpenNoFollow(name)
	if errors.Is(err, localfs.ErrLink) {
		err = fmt.Errorf("%s is %w", filepath.Base(name), ErrNotRegular)
	}
	if err != nil {
		return nil, was, err
	}
	return readSmall(f, most)
}

// readSmall reads an open file and closes it.
func readSmall(f *os.File, most int64) (data []byte, was Info, err error) {
	defer f.Close()
	was, err = found(f.Stat())
	if err == nil && !was.Mode.IsRegular() {
		err = fmt.Errorf("%s is %w", filepath.Base(f.Name()), ErrNotRegular)
	}
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, most))
	}
	return data, was, err
}

func (Local) WriteSmall(name string, data []byte, create func()) error {
	return writeSmall(name, data, create, os.OpenFile, os.Remove)
}

func writeSmall(name string, data []byte, create func(),
	open func(string, int, fs.FileMode) (*os.File, error), remove func(string) error) error {
	flags := os.O_WRONLY
	if create != nil {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := open(name, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = cmp.Or(err, f.Close()); err != nil && create != nil {
		remove(name)
	} else if err == nil && create != nil {
		create()
	}
	return err
}

func (Local) Remove(name string, dir bool) error { return remove(name, dir, os.Lstat, os.Remove) }

// remove removes a name. With dir it looks first, and spares a file that has taken a directory's
// place: os.Remove tries both.
func remove(name string, dir bool, look func(string) (fs.FileInfo, error),
	remove func(string) error) error {
	if dir {
		if info, err := look(name); err != nil {
			return err
		} else if !info.IsDir() {
			return &fs.PathError{Op: "rmdir", Path: name, Err: ErrNotDirectory}
		}
	}
	return remove(name)
}

func (Local) Open(ctx context.Context, name string, how Opening) (Reader, error) {
	var file *os.File
	var err error
	switch {
	case how&NoFollow != 0:
		file, err = localfs.OpenNoFollow(name)
	case how&Regular != 0: // there may be thousands
		file, err = localfs.OpenRegular(name)
	default:
		file, err = localfs.OpenWaiting(ctx, func() (*os.File, error) { return os.Open(name) })
	}
	if err != nil {
		return nil, err
	}
	return newLocalFile(ctx, file)
}

func newLocalFile(ctx context.Context, file *os.File) (Reader, error) {
	is, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	f := &LocalFile{File: file, ctx: ctx, free: func() {}}
	if f.info.setInfo(is); !is.Mode().IsRegular() {
		f.free = localfs.Interruptible(ctx, file)
	}
	return f, nil
}

// OpenIn opens a regular file below a root, to be read.
func OpenIn(ctx context.Context, r *LocalRoot, name string) (f Reader, err error) {
	err = r.in(name, func(in *os.Root, base string) error {
		file, err := openRegular(in, base, os.O_RDONLY)
		if err == nil {
			f, err = newLocalFile(ctx, file)
		}
		return about(filepath.Join(r.top.Name(), name), err)
	})
	return f, err
}

func (Local) ReadWhole(_ context.Context, name string, how Opening, info *Info, to Memory) error {
	open := localfs.OpenRegular
	if how&NoFollow != 0 {
		open = localfs.OpenNoFollow
	}
	f, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	to.Opened()
	was, err := f.Stat()
	if err == nil && (!was.Mode().IsRegular() || was.Size() != info.Size ||
		how&NoFollow != 0 && info.Local != nil && !os.SameFile(was, info.Local)) {
		err = ErrNotListed
	}
	if err != nil {
		return err
	}
	n, err := io.ReadFull(f, to.Lend(int(info.Size)+1))
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	now, err := f.Stat()
	if err == nil && (int64(n) != info.Size || // files like those in /proc have a size of 0
		now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime())) {
		err = ErrNotListed
	}
	if err == nil {
		info.setInfo(was)
	}
	return err
}

// A LocalFile is an open file on this machine.
type LocalFile struct {
	*os.File
	ctx  context.Context // as it was opened
	info Info
	free func() // ends the interruptibility of reads
}

// signalTime is how long a signal may take to end a context: package ui waits for a second one, and
// the machine may be busy.
const signalTime = 500 * time.Millisecond

// Read implements io.Reader. Whoever wrote to a pipe may have been ended by a signal to us, too: then
// the data is not complete.
func (f *LocalFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err == io.EOF && f.info.Mode&fs.ModeNamedPipe != 0 {
		select {
		case <-f.ctx.Done():
			err = context.Cause(f.ctx)
		case <-time.After(signalTime):
		}
	}
	return n, err
}

func (f *LocalFile) Info() *Info         { return &f.info }
func (f *LocalFile) Stat() (Info, error) { return found(f.File.Stat()) }

// Again implements Reader. The file is the same even if its name has since gone to another one.
func (f *LocalFile) Again(context.Context) (ReadAtCloser, error) { return lent{f.File}, nil }

func (f *LocalFile) Close() error {
	f.free()
	return f.File.Close()
}

// lent is an open file that its owner closes.
type lent struct{ io.ReaderAt }

func (lent) Close() error { return nil }

// LocalFiles are the files of a local directory, which is open from the first call to Close. Links
// in the path that the user named are followed, links below it are not.
type LocalFiles struct {
	below   *LocalRoot // nil if nobody else uses the directory
	dir     string
	in      *os.Root
	release func()
	quirks  *quirks.Quirks // of the file system
}

// FilesIn returns the files of a directory. q are its file system's quirks.
func FilesIn(dir string, q *quirks.Quirks) *LocalFiles { return &LocalFiles{dir: dir, quirks: q} }

// Files returns the files of a directory below the root.
func (r *LocalRoot) Files(dir string) *LocalFiles {
	return &LocalFiles{below: r, dir: dir, quirks: r.Quirks}
}

func (d *LocalFiles) ready() (err error) {
	switch {
	case d.in != nil:
	case d.below != nil:
		d.in, d.release, err = d.below.Open(d.dir)
	default:
		if d.in, err = os.OpenRoot(d.dir); err == nil {
			d.release = func() { d.in.Close() }
		}
	}
	return err
}

// Close implements Files. The next call opens the directory again.
func (d *LocalFiles) Close() {
	if d.in != nil {
		d.release()
		d.in = nil
	}
}

// about sets the path in an error of an os.Root.
func about(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		path.Path = name
	}
	return err
}

func (d *LocalFiles) Lstat(name string) (fs.FileInfo, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	info, err := d.in.Lstat(filepath.Base(name))
	return info, about(name, err)
}

// OpenFile opens a file as os.OpenFile does, but does not wait for the other end of a named pipe
// that took the file's place.
func (d *LocalFiles) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	f, err := d.in.OpenFile(filepath.Base(name), flag|localfs.Nonblock, perm)
	return f, about(name, err)
}

func (d *LocalFiles) Open(name string, flag int, perm fs.FileMode) (Writer, error) {
	f, err := d.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &LocalWriter{File: f, In: d.in, Base: filepath.Base(name), Quirks: d.quirks}, nil
}

// Inherit implements Files: the owner and the access control list are kept.
func (d *LocalFiles) Inherit(w Writer, name string, old fs.FileInfo,
	owned bool) (mode fs.FileMode, lost []string) {
	mode = old.Mode()
	file := w.(*LocalWriter).File
	if !owned {
		if err := localfs.OwnerOf(old).Keep(file); err != nil {
			lost = append(lost, "the new file cannot be given the owner of the old one: "+err.Error())
			mode &^= RunsAs // its owner never agreed to that
		}
	}
	if err := localfs.KeepACL(d.in, filepath.Base(name), file); err != nil {
		lost = append(lost, "the new file cannot be given the access control list of the old one, "+
			"and gives its group no access: "+err.Error())
		mode &^= 0o070
	}
	return mode, lost
}

func (d *LocalFiles) Remove(_ context.Context, name string) error {
	if err := d.ready(); err != nil {
		return err
	}
	return about(name, d.in.Remove(filepath.Base(name)))
}

// Replace renames a file to the name of another, which it replaces.
func (d *LocalFiles) Replace(from, to string) error {
	return localfs.Replace(d.in, filepath.Base(from), filepath.Base(to))
}

// Flush makes a rename survive a power failure, where directories can be flushed.
func (d *LocalFiles) Flush() error {
	dir, err := d.in.Open(".")
	if err != nil {
		return nil // it may not be read
	}
	defer dir.Close()
	if err = dir.Sync(); runtime.GOOS == "windows" || cannotFlush(err) {
		return nil
	}
	return err
}

// Moved reports whether the directory has lost its path to another entry, or to none.
func (d *LocalFiles) Moved(path string) bool          { return moved(d.in, os.Stat, path) }
func (*LocalFiles) Explain(err error, _ string) error { return err }

// A LocalWriter is a local file that is open for writing.
type LocalWriter struct {
	*os.File
	In   *os.Root // its directory
	Base string   // its name there

	Sparse bool // blocks of zeros become holes
	Over   bool // its old contents are overwritten
	early  bool // it had its size before its data

	Quirks *quirks.Quirks // of its file system
}

func (w *LocalWriter) WriteAt(p []byte, off int64) (int, error) {
	switch {
	case !w.Sparse:
		return w.File.WriteAt(p, off)
	case w.Over:
		return localfs.WriteSparseOver(w.File, p, off)
	}
	return localfs.WriteSparse(w.File, p, off)
}

// Resize sets the size of a sparse file, which may end in a hole. A longer file stays longer until
// it is truncated.
func (w *LocalWriter) Resize(size int64) error {
	if !w.Sparse {
		return nil
	}
	info, err := w.Stat()
	if err != nil || info.Size() == size || w.Over && info.Size() > size {
		return err
	}
	w.early = true
	return w.Truncate(size)
}

// Finish implements Writer. It sets times last and by name: closing a file may write to it.
func (w *LocalWriter) Finish(_ context.Context, f *Finish) (done Finished, err error) {
	set := &f.Set
	if f.Truncate {
		err = w.Truncate(f.Size)
	}
	if err == nil && set.SetOwner {
		done.NotSet = w.Chown(set.UID, set.GID)
	}
	if err == nil && set.SetMode && done.NotSet == nil {
		done.NotSet = given(denied(w.Chmod(set.Mode)), f.Own, &w.Quirks.NoModes, &done.Unset.Modes)
	}
	if err == nil && (f.Flush || f.Early || w.early) {
		err = f.flushed(w.Sync())
	}
	if err == nil {
		err = w.Close() // NFS and others report failed writes only now
	}
	if err == nil && set.SetTimes && done.NotSet == nil {
		err := about(w.Name(), w.In.Chtimes(w.Base, set.Atime, set.Mtime))
		done.NotSet = given(denied(err), f.Own, &w.Quirks.NoTimes, &done.Unset.Times)
		done.Times = done.NotSet != nil
	}
	done.Unset.Here = done.Unset.Times || done.Unset.Modes
	return done, err
}

func (w *LocalWriter) Keep(_ context.Context, n int64) (ok, flushed bool) {
	ok = w.Truncate(n) == nil
	flushed = ok && w.Sync() == nil
	w.Close()
	return ok, flushed
}

func (w *LocalWriter) Abandon(context.Context) { w.Close() }
func (w *LocalWriter) Release()                { w.Close() }
