//go:build linux || darwin || freebsd

package osfs

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// openUpload opens a file for writing in a tree whose files appear when they are complete.
func (f *FS) openUpload(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	var o opened
	err := f.tree.beneath(ctx, name, func(t tree) error {
		return t.do(ctx, "open", name, func(w *walk) error {
			w.create = flags&wire.OpenCreate != 0
			return w.lookUp(flags&exclusive != exclusive, func(dir int, base string) (err error) {
				o, err = t.uploads.openFor(ctx, dir, base, flags, attrs.Permissions&0o777)
				return err
			})
		})
	})
	if err != nil {
		return nil, err
	}
	appends := flags&wire.OpenAppend != 0
	if o.upload == nil {
		return (&file{File: o.file, fs: f, name: name}).opened(appends), nil
	}
	u := &uploadFile{file: &file{File: o.upload.file, fs: f, name: name}, upload: o.upload,
		part: o.part}
	if attrs.Flags &^= wire.AttrPermissions; o.created && attrs.Flags != 0 {
		if err := u.Setstat(attrs); err != nil {
			o.upload.remove(nil)
			u.Abandon()
			return nil, err
		}
	}
	if appends {
		return uploadAppend{u}, nil
	}
	return u, nil
}

// opening is an OPEN for writing. What it does depends on its flags, and on what it finds:
//
//	             a file                      only a hidden file               neither
//	CREAT+EXCL   fails                       fails while it is in progress;   begins an upload
//	                                         removes a leftover, and begins
//	TRUNC+CREAT  begins an upload, or        removes it, and begins           begins an upload
//	             truncates it in place
//	TRUNC        the same                    fails while it is in progress;   fails
//	                                         empties a leftover, as a part
//	CREAT        writes in place             goes on with it                  begins an upload
//	none         goes on with its upload,    goes on with it, as a part       fails
//	             or writes in place
//
// To go on with an upload is to join it while it is in progress, and to resume a leftover. Between
// two steps others may change what was found (errAgain).
type opening struct {
	*uploads
	dir         int
	base        string
	flags, perm uint32 // of OPEN
}

const exclusive = wire.OpenCreate | wire.OpenExclusive

func (o *opening) creates() bool   { return o.flags&wire.OpenCreate != 0 }
func (o *opening) truncates() bool { return o.flags&wire.OpenTruncate != 0 }
func (o *opening) alone() bool     { return o.flags&exclusive == exclusive }

// opened is a file opened for writing: an upload, or else a file in place.
type opened struct {
	upload  *upload
	part    bool // see upload
	created bool
	file    *os.File
}

// openFor opens a file for writing. It follows no link.
func (u *uploads) openFor(ctx context.Context, dir int, base string,
	flags, perm uint32) (done opened, err error) {
	o := opening{u, dir, base, flags, perm}
	for i := range 10 {
		done, err = o.try(ctx)
		if i == 0 && err == unix.ENOENT { // an upload may have got its name in the meantime
			done, err = o.try(ctx)
		}
		if err != errAgain {
			done.created = done.created && i == 0 // not if it took the place of another upload
			return done, err
		}
	}
	return done, errBusy
}

func (o *opening) try(ctx context.Context) (done opened, err error) {
	if o.alone() {
		if _, err = statAt(o.dir, o.base); err == nil {
			err = unix.EEXIST
		}
	} else {
		var fd int
		flag := openFlags(o.flags&^(wire.OpenCreate|wire.OpenTruncate)) | unix.O_NONBLOCK
		if fd, err = openAt(o.dir, o.base, flag|unix.O_NOFOLLOW, 0); err == nil {
			return o.existing(ctx, os.NewFile(uintptr(fd), o.base))
		}
	}
	if err != unix.ENOENT {
		return done, err
	}
	if o.creates() {
		up := &upload{all: o.uploads, base: o.base, alone: o.alone()}
		if err := up.begin(o.dir, o.perm, nil); err != unix.EEXIST {
			return opened{upload: up, created: true}, err
		}
	}
	if o.alone() || o.creates() && o.truncates() {
		return done, o.removeHidden(ctx)
	}
	up, err := o.joinOrResume()
	return opened{upload: up, part: !o.creates()}, err
}

// existing opens a file that exists, and has been opened. A truncated file is replaced by a new
// one. Opening it then without CREAT, as our own client does to send parts over other connections,
// opens the new one. Other changes are made in place.
func (o *opening) existing(ctx context.Context, file *os.File) (done opened, err error) {
	switch {
	case o.truncates():
		done.upload, err = o.replace(ctx, file)
	case !o.creates():
		if up, _ := o.find(o.dir, hiddenName(o.base)); up != nil {
			done.upload, done.part, err = up, true, up.join(true)
		}
	}
	if done.upload == nil && err == nil {
		done.file, err = file, o.inPlace()
	}
	if done.file == nil || err != nil {
		file.Close()
	}
	return done, err
}

// inPlace returns an error if nothing may be changed where it is.
func (o *opening) inPlace() error {
	if o.flags&notInPlace != 0 {
		return ErrInPlace
	}
	return nil
}

// replace begins an upload that will replace a file. It truncates the file instead, and returns
// nil, if that has other names or another owner, which would be lost, or no file can be made next
// to it.
func (o *opening) replace(ctx context.Context, file *os.File) (*upload, error) {
	var st unix.Stat_t
	err := control(file, func(fd int) error { return unix.Fstat(fd, &st) })
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG { // a pipe, say, which is never truncated
		return nil, err
	}
	if st.Nlink == 0 { // it has been replaced or removed
		return nil, errAgain
	}
	if st.Nlink == 1 && (st.Uid == o.self || o.self == 0) {
		up := &upload{all: o.uploads, base: o.base, replaces: true}
		err := up.begin(o.dir, uint32(st.Mode)&0o777, &st)
		if err == unix.EEXIST {
			if err = o.removeHidden(ctx); err == unix.ENOENT {
				err = errAgain
			}
		}
		switch err {
		case nil:
			return up, nil
		case unix.EACCES, unix.EPERM, unix.EROFS:
		default:
			return nil, err
		}
	}
	if err := o.inPlace(); err != nil {
		return nil, err
	}
	return nil, file.Truncate(0)
}

// removeHidden removes the hidden file, and returns errAgain once it is gone. A client that has
// lost its connection may begin again before the server notices, so it takes over the name from an
// upload in progress, except with EXCL.
func (o *opening) removeHidden(ctx context.Context) error {
	err := o.drop(ctx, o.dir, hiddenName(o.base), !o.alone(), errSuperseded)
	switch {
	case err == nil, err == unix.ENOENT && o.creates():
		return errAgain
	case err == errBusy && o.alone():
		return unix.EEXIST
	}
	return err
}

// joinOrResume opens a hidden file: an upload in progress, or the leftover of one. TRUNC alone does
// not begin a file again, so it must not take it from the session that does.
func (o *opening) joinOrResume() (*upload, error) {
	hidden, part := hiddenName(o.base), !o.creates()
	up, err := o.find(o.dir, hidden)
	switch {
	case err == unix.ENOENT && o.creates():
		return nil, errAgain
	case err != nil:
		return nil, err
	case up != nil && o.truncates():
		return nil, errBusy
	case up != nil:
		return up, up.join(part)
	}
	fd, err := openAt(o.dir, hidden, unix.O_RDWR|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		err = errAgain
	}
	if err != nil {
		return nil, err
	}
	st, err := lockHidden(fd, o.dir, hidden)
	if err == nil && o.truncates() {
		err = unix.Ftruncate(fd, 0)
	}
	up = &upload{all: o.uploads, base: o.base}
	if part {
		up.parts = 1
	}
	if err == nil {
		err = up.register(fd, o.dir, &st)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return up, nil
}
