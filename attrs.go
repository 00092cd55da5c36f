package usftp

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/wire"
)

// FileStat holds the attributes of a file that a server has sent (draft-02, section 5). A server
// may leave out any of them: the Has methods report which were sent, and the value of a missing
// one is 0 and means nothing.
type FileStat struct {
	Size     uint64 // bytes
	Mode     uint32 // POSIX mode bits, type included; see HasMode and HasType
	Mtime    uint32 // seconds as the server sent them; see ModTime
	Atime    uint32
	UID      uint32
	GID      uint32
	Extended []StatExtended

	present uint32
}

// StatExtended is an attribute not defined by the protocol.
type StatExtended struct{ ExtType, ExtData string }

// HasSize reports whether the server sent the size.
func (s *FileStat) HasSize() bool { return s.present&wire.AttrSize != 0 }

// HasType reports whether Mode says which type the file has: the server sent it, or it followed from
// other answers.
func (s *FileStat) HasType() bool { return s.Mode&typeMask != 0 }

// tells reports whether mode and type are known.
func (s *FileStat) tells() bool { return s.HasMode() && s.HasType() }

// The types of files in POSIX's mode bits.
const (
	typeMask = 0o170000
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

// HasMode reports whether the server sent the mode. Its type may be known even if it did not.
func (s *FileStat) HasMode() bool { return s.present&wire.AttrPermissions != 0 }

// HasTimes reports whether the server sent the access and modification times.
func (s *FileStat) HasTimes() bool { return s.present&wire.AttrACModTime != 0 }

// HasOwner reports whether the server sent the IDs of owner and group.
func (s *FileStat) HasOwner() bool { return s.present&wire.AttrUIDGID != 0 }

// sized reports whether the size is known and means something: only a regular file's does.
func (s *FileStat) sized() bool {
	return s.HasSize() && s.Size <= math.MaxInt64 && s.FileMode().IsRegular()
}

// differs reports whether any attribute that both have differs, other than the access time.
func (s *FileStat) differs(o *FileStat) bool {
	both := s.present & o.present
	return both&wire.AttrSize != 0 && s.Size != o.Size ||
		both&wire.AttrPermissions != 0 && s.Mode != o.Mode ||
		both&wire.AttrACModTime != 0 && s.Mtime != o.Mtime ||
		both&wire.AttrUIDGID != 0 && (s.UID != o.UID || s.GID != o.GID)
}

// FileMode returns the mode as an [fs.FileMode].
func (s *FileStat) FileMode() fs.FileMode { return wire.FileMode(s.Mode) }

// ModTime returns the modification time, or the zero time if the server sent none. The protocol has
// 32 bits for seconds since 1970. OpenSSH and others send the low 32 bits of earlier times, so that
// the last second of 1969 reads as one of 2106. Files from the 1960s are more likely than files
// from the end of this century: times from 2096 on are taken to be from 1960 on.
func (s *FileStat) ModTime() time.Time {
	if !s.HasTimes() {
		return time.Time{}
	}
	return wire.Time(s.Mtime)
}

// AccessTime returns the access time, or the zero time if the server sent none. For times before
// 1970 see [FileStat.ModTime].
func (s *FileStat) AccessTime() time.Time {
	if !s.HasTimes() {
		return time.Time{}
	}
	return wire.Time(s.Atime)
}

func newFileStat(a *wire.Attrs) FileStat {
	s := FileStat{
		Size: a.Size, Mode: a.Permissions, Mtime: a.MTime, Atime: a.ATime, UID: a.UID, GID: a.GID,
		present: a.Flags,
	}
	if len(a.Extended) > 0 {
		s.Extended = make([]StatExtended, 0, len(a.Extended))
	}
	for _, e := range a.Extended {
		s.Extended = append(s.Extended, StatExtended{ExtType: e.Name, ExtData: e.Data})
	}
	return s
}

// fileInfo is the fs.FileInfo of a remote file.
type fileInfo struct {
	name string
	stat *FileStat
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return int64(i.stat.Size) }
func (i fileInfo) Mode() fs.FileMode  { return i.stat.FileMode() }
func (i fileInfo) ModTime() time.Time { return i.stat.ModTime() }
func (i fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i fileInfo) Sys() any           { return i.stat }
func (i fileInfo) String() string     { return fs.FormatFileInfo(i) }

// keepAttrs reads an ATTRS reply and caches it.
func (f *File) keepAttrs(call *conn.Call) (*FileStat, error) {
	stat, err := attrsReply(call)
	if err == nil {
		f.remember(stat)
	}
	return stat, err
}

func (f *File) remember(stat *FileStat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attrs = *stat
}

// AttrsCached reports whether any attributes are cached.
func (f *File) AttrsCached() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attrs.present != 0
}

// FileStat returns the cached attributes. If there are none, all its Has methods return false.
func (f *File) FileStat() *FileStat {
	f.mu.Lock()
	defer f.mu.Unlock()
	stat := f.attrs
	return &stat
}

// Size returns the cached size in bytes, or 0. Like all accessors it sends no request; see
// [File.Stat].
func (f *File) Size() int64 { return int64(f.FileStat().Size) }

// Mode returns the cached type and permissions, or 0.
func (f *File) Mode() fs.FileMode {
	return f.FileStat().FileMode()
}

// ModTime returns the cached modification time, in whole seconds, or the zero time.
func (f *File) ModTime() time.Time { return f.FileStat().ModTime() }

// IsDir reports whether the file is known to be a directory.
func (f *File) IsDir() bool { return f.Mode().IsDir() }

// IsRegular reports whether the file is known to be a regular file.
func (f *File) IsRegular() bool {
	stat := f.FileStat()
	return (stat.HasMode() || stat.HasType()) && stat.FileMode().IsRegular()
}

// UID returns the cached ID of the owner, or 0.
func (f *File) UID() uint32 { return f.FileStat().UID }

// GID returns the cached ID of the group, or 0.
func (f *File) GID() uint32 { return f.FileStat().GID }

// Info returns the cached attributes as an [fs.FileInfo] whose name is the base name and whose Sys
// is a [*FileStat]. It sends no request.
func (f *File) Info() fs.FileInfo { return fileInfo{f.BaseName(), f.FileStat()} }

// DirEntry returns the file as an [fs.DirEntry] whose name is the base name. Its Info sends an
// LSTAT only if no attributes are cached.
func (f *File) DirEntry() fs.DirEntry { return dirEntry{f} }

type dirEntry struct{ file *File }

func (e dirEntry) Name() string      { return e.file.BaseName() }
func (e dirEntry) IsDir() bool       { return e.file.IsDir() }
func (e dirEntry) Type() fs.FileMode { return e.file.Mode().Type() }
func (e dirEntry) String() string    { return fs.FormatDirEntry(e) }

func (e dirEntry) Info() (fs.FileInfo, error) {
	if e.file.AttrsCached() {
		return e.file.Info(), nil
	}
	return e.file.Client().Lstat(e.file.Name())
}

// Chmod sets the permissions of a file: the nine bits, setuid, setgid and sticky. It follows
// symbolic links and takes one round trip.
func (c *Client) Chmod(name string, mode fs.FileMode) error {
	return c.do(c.setstat("chmod", name, toMode(mode)))
}

// Chown sets the IDs of a file's owner and group. It follows symbolic links and takes one round
// trip. The protocol sends both; if one is negative or above 2^32-1 the error matches
// [fs.ErrInvalid].
func (c *Client) Chown(name string, uid, gid int) error {
	return c.do(c.setstat("chown", name, toOwner(uid, gid)))
}

// Chtimes sets the access and modification times of a file. It follows symbolic links and takes one
// round trip. The protocol has whole seconds from 1970 to 2106; for other times the error matches
// [fs.ErrInvalid]. Times from 2096 on are read as earlier ones; see [FileStat.ModTime]. It also
// matches [fs.ErrInvalid] for a time after January 2038 on Apache MINA, which could not list the
// file's directory any more.
func (c *Client) Chtimes(name string, atime, mtime time.Time) error {
	return c.do(c.setstat("chtimes", name, toTimes(atime, mtime)))
}

// Truncate sets the size of a file in bytes; added bytes read as zeros. It takes one round trip, and
// some more on servers in Java, where a byte at its end makes a file longer. On servers of paramiko,
// which may lose the contents, another size than 0 is an error that matches
// [errors.ErrUnsupported], and nothing is sent.
func (c *Client) Truncate(name string, size int64) error {
	c.changed(name)
	defer c.changed(name)
	if err := c.do(c.setstat("truncate", name, toSize(size))); err != nil {
		return err
	}
	return c.grow(name, size)
}

// grow makes a file longer that has been given a size by its name: Java's channels, to which Apache
// MINA and Maverick pass it, do so only when they write.
func (c *Client) grow(name string, size int64) error {
	if !(privateClient{c}).SetsByName() || size == 0 {
		return nil
	}
	info, err := c.Stat(name)
	if err != nil || !info.Sys().(*FileStat).HasSize() || info.Size() >= size {
		return err
	}
	f, err := c.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte{0}, size-1)
	return cmp.Or(err, f.Close())
}

// SetExtendedData sets attributes not defined by the protocol (draft-02, section 5), by name and
// value. It takes one round trip.
func (c *Client) SetExtendedData(name string, extended []StatExtended) error {
	return c.do(c.setstat("setstat", name, toExtended(extended)))
}

// Lchmod changes the mode of a symbolic link itself, which Linux servers refuse. It needs
// lsetstat@openssh.com (OpenSSH's PROTOCOL, section 4.7); without it the error matches
// [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) Lchmod(name string, mode fs.FileMode) error {
	return c.do(c.lsetstat("lchmod", name, toMode(mode)))
}

// Lchown changes the owner of a symbolic link itself. It needs lsetstat@openssh.com; without it the
// error matches [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) Lchown(name string, uid, gid int) error {
	return c.do(c.lsetstat("lchown", name, toOwner(uid, gid)))
}

// Lchtimes changes the times of a symbolic link itself. It needs lsetstat@openssh.com; without it
// the error matches [errors.ErrUnsupported]. It takes one round trip.
func (c *Client) Lchtimes(name string, atime, mtime time.Time) error {
	return c.do(c.lsetstat("lchtimes", name, toTimes(atime, mtime)))
}

// NewAttrs are attributes to set. Attributes whose Set flag is false stay as they are.
type NewAttrs struct {
	SetMode  bool
	Mode     fs.FileMode // the nine bits, setuid, setgid and sticky
	SetTimes bool
	Atime    time.Time // whole seconds, from 1970 to 2106
	Mtime    time.Time
	SetOwner bool
	UID, GID int
}

// SetAttrs sets several attributes of a file at once. It follows symbolic links and takes one round
// trip, or none if there is nothing to set. If the protocol cannot express a value the error
// matches [fs.ErrInvalid], and nothing is sent.
func (c *Client) SetAttrs(name string, attrs NewAttrs) error {
	if attrs.empty() {
		return nil
	}
	return c.do(c.setstat("setstat", name, attrs.change()))
}

// LsetAttrs sets attributes of a symbolic link itself. It needs lsetstat@openssh.com (OpenSSH's
// PROTOCOL, section 4.7); without it, or if the server cannot set a link's mode, the error matches
// [errors.ErrUnsupported].
func (c *Client) LsetAttrs(name string, attrs NewAttrs) error {
	if attrs.empty() {
		return nil
	}
	return c.do(c.lsetstat("lsetstat", name, attrs.change()))
}

// Chmod sets the file's permissions. It takes one round trip.
func (f *File) Chmod(mode fs.FileMode) error { return f.do(f.fsetstat("chmod", toMode(mode))) }

// Chown sets the IDs of the file's owner and group, like [Client.Chown]. It takes one round trip.
func (f *File) Chown(uid, gid int) error { return f.do(f.fsetstat("chown", toOwner(uid, gid))) }

// Chtimes sets the file's times, like [Client.Chtimes]. It takes one round trip.
func (f *File) Chtimes(atime, mtime time.Time) error {
	return f.do(f.fsetstat("chtimes", toTimes(atime, mtime)))
}

// Truncate sets the file's size, like [Client.Truncate]. The offset stays.
func (f *File) Truncate(size int64) error {
	f.session().changed(f.Name())
	defer f.session().changed(f.Name())
	if err := f.do(f.fsetstat("truncate", toSize(size))); err != nil {
		return err
	}
	return f.Client().grow(f.Name(), size)
}

// SetExtendedData sets attributes not defined by the protocol. The path is not used, since the file
// is open. It takes one round trip.
func (f *File) SetExtendedData(_ string, extended []StatExtended) error {
	return f.do(f.fsetstat("setstat", toExtended(extended)))
}

// SetAttrs sets several attributes of the open file at once, like [Client.SetAttrs].
func (f *File) SetAttrs(attrs NewAttrs) error {
	if attrs.empty() {
		return nil
	}
	return f.do(f.fsetstat("setstat", attrs.change()))
}

// setstat changes attributes by path (draft-02, section 6.9).
func (s *session) setstat(op, name string, to change) operation[none] {
	s.cuts.Add(int64(to.Flags & wire.AttrSize))
	message := wire.PathAttrs{Type: wire.TypeSetstat, Path: name, Attrs: to.Attrs}
	return s.command(op, name, message).fail(s.refusesChange(to))
}

// lsetstat changes attributes by path without following links.
func (s *session) lsetstat(op, name string, to change) operation[none] {
	message := wire.Lsetstat{Path: name, Attrs: to.Attrs}
	return s.command(op, name, message).needs(wire.ExtLsetstat).fail(s.refusesChange(to))
}

// fsetstat changes attributes by handle (draft-02, section 6.9).
func (f *File) fsetstat(op string, to change) operation[none] {
	return onHandle(f, op, func(open *openFile) operation[none] {
		open.client.cuts.Add(int64(to.Flags & wire.AttrSize))
		if isErlang(open.client.options.serverVersion) {
			// It takes a relative name at OPEN to begin at the directory of its own process here,
			// and with a root of its own an absolute one at the machine's.
			byName := open.client.setstat(op, f.Name(), to)
			byName.call.Ordered = true
			return byName
		}
		command := open.client.command(op, f.Name(),
			wire.Fsetstat{Handle: open.handle.Name, Attrs: to.Attrs})
		command.call.Ordered = true // after the WRITEs of a transfer that was given up
		return command.fail(open.client.refusesChange(to))
	})
}

// change holds attributes to set, or the reason why they cannot be set.
type change struct {
	wire.Attrs
	err error
}

// change returns the attributes in the protocol's form: they are set in one request.
func (a *NewAttrs) change() (to change) {
	if a.SetMode {
		to.Flags |= wire.AttrPermissions
		to.Permissions = wire.PermissionBits(a.Mode)
	}
	if a.SetTimes {
		to.Flags |= wire.AttrACModTime
		atime, mtime := a.Atime.Unix(), a.Mtime.Unix()
		if !fits(atime) || !fits(mtime) {
			to.err = errTimeRange
		}
		to.ATime, to.MTime = uint32(atime), uint32(mtime)
	}
	if a.SetOwner {
		to.Flags |= wire.AttrUIDGID
		if !fits(int64(a.UID)) || !fits(int64(a.GID)) {
			to.err = cmp.Or(to.err, fs.ErrInvalid)
		}
		to.UID, to.GID = uint32(a.UID), uint32(a.GID)
	}
	return to
}

// fits reports whether the protocol can express a time or an ID.
func fits(n int64) bool { return 0 <= n && n <= math.MaxUint32 }

// errTimeRange says that the protocol cannot express a time.
var errTimeRange error = invalidError("SFTP has times from 1970 to 2106 only")

// errTimeTold says that the server cannot tell a time.
var errTimeTold error = invalidError("the server cannot list files with times after January 2038")

// refusesChange returns why a change is not sent: the protocol lacks it, the server would set times
// that it cannot tell afterwards, or the file would lose its contents.
func (s *session) refusesChange(to change) error {
	last := s.lastTime()
	switch {
	case to.err != nil:
		return to.err
	case to.Has(wire.AttrACModTime) && (int64(to.ATime) > last || int64(to.MTime) > last):
		return errTimeTold
	case to.Has(wire.AttrSize) && to.Size > 0 && s.emptiesToCut():
		return errEmpties
	}
	return nil
}

// errEmpties says why a size is not set.
var errEmpties = fmt.Errorf("%w: the server may empty the file to set its size",
	errors.ErrUnsupported)

// emptiesToCut reports whether a server may do so. paramiko's SFTPServer.set_file_attr does it.
func (s *session) emptiesToCut() bool {
	return strings.HasPrefix(s.options.serverVersion, "SSH-2.0-paramiko")
}

// lastTime returns the last time, in seconds since 1970, that a file on the server may have. Apache
// MINA sets later ones, but its SftpHelper.writeTime puts no more than an int into a reply: the
// directory cannot be listed any more, and STAT of the file ends the session.
func (s *session) lastTime() int64 {
	if isMINA(s.options.serverVersion) {
		return math.MaxInt32
	}
	return math.MaxUint32
}

// empty reports whether there is nothing to set.
func (a NewAttrs) empty() bool { return !a.SetMode && !a.SetTimes && !a.SetOwner }

func toMode(mode fs.FileMode) change {
	return change{Attrs: wire.Attrs{Flags: wire.AttrPermissions,
		Permissions: wire.PermissionBits(mode)}}
}

func toOwner(uid, gid int) change {
	attrs := NewAttrs{SetOwner: true, UID: uid, GID: gid}
	return attrs.change()
}

func toTimes(atime, mtime time.Time) change {
	attrs := NewAttrs{SetTimes: true, Atime: atime, Mtime: mtime}
	return attrs.change()
}

func toSize(size int64) change {
	if size < 0 {
		return change{err: fs.ErrInvalid}
	}
	return change{Attrs: wire.Attrs{Flags: wire.AttrSize, Size: uint64(size)}}
}

func toExtended(extended []StatExtended) change {
	to := change{Attrs: wire.Attrs{Flags: wire.AttrExtended}}
	for _, e := range extended {
		to.Extended = append(to.Extended, wire.ExtensionPair{Name: e.ExtType, Data: e.ExtData})
	}
	return to
}
