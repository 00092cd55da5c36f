package endpoint

import (
	"errors"
	"io/fs"
	"math"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// Info holds the known facts about a file.
type Info struct {
	Mode     fs.FileMode // no more than the type without HasMode
	HasMode  bool
	Size     int64 // -1 if unknown
	Mtime    time.Time
	Atime    time.Time
	HasTimes bool
	Owner    localfs.Owner
	ID       string      // of a local file, if it was asked for
	Local    fs.FileInfo // of a local file
	stream   bool
}

// IsRegular reports whether the file is a regular file of known size. Some hosts tell no more than
// the size.
func (f *Info) IsRegular() bool { return !f.stream && f.Mode.IsRegular() && f.Size >= 0 }

// OfStat returns the Info for a server's attrs.
func OfStat(stat *usftp.FileStat) (f Info) {
	f.setStat(stat)
	return f
}

// setStat sets f to a server's attrs. It is not inlined, to keep the stacks of thousands of files
// small.
//
//go:noinline
func (f *Info) setStat(stat *usftp.FileStat) {
	*f = Info{Size: -1}
	if stat == nil {
		return
	}
	f.HasMode, f.HasTimes, f.Mtime, f.Atime = stat.HasMode(), stat.HasTimes(), stat.ModTime(),
		stat.AccessTime()
	f.Owner = localfs.Owner{UID: int(stat.UID), GID: int(stat.GID), Known: stat.HasOwner()}
	f.Mode = stat.FileMode()
	if stat.HasSize() && int64(stat.Size) >= 0 {
		f.Size = int64(stat.Size)
	}
}

// OfFile returns the Info for a local file.
func OfFile(info fs.FileInfo) (f Info) {
	f.setInfo(info)
	return f
}

// setInfo sets f to the system's facts about a file. For noinline see setStat.
//
//go:noinline
func (f *Info) setInfo(info fs.FileInfo) {
	*f = Info{Mode: modeOf(info), HasMode: true, Size: info.Size(), Mtime: info.ModTime(),
		Atime: info.ModTime(), HasTimes: true, Owner: localfs.OwnerOf(info), Local: info}
}

// modeOf returns a file's mode. On Windows a directory may be irregular as well, such as one that
// is synchronized with a cloud.
func modeOf(info fs.FileInfo) fs.FileMode {
	mode := info.Mode()
	if mode.IsDir() {
		mode &^= fs.ModeIrregular
	}
	return mode
}

// Perm returns the permissions to make a directory with.
func (f *Info) Perm() fs.FileMode {
	if !f.HasMode {
		return 0o777
	}
	return f.Mode.Perm()
}

// DirBits are the mode bits besides the permissions that a directory's copy gets. On a directory
// they give nobody another user's rights: one controls who may delete files in it, the other which
// group new files have.
const DirBits = fs.ModeSetgid | fs.ModeSticky

// RunsAs are the bits of a program that runs with the rights of its owner or group instead of its
// caller's. A copy gets none: its owner, who made it, never agreed to that.
const RunsAs = fs.ModeSetuid | fs.ModeSetgid

// Nearest returns the time closest to t that a file on a host may have, in whole seconds. On this
// machine, where conn is nil, it returns t, unless package os cannot set it: it counts nanoseconds in
// 64 bits, and sets another time without an error.
func Nearest(t time.Time, conn *pool.Conn) time.Time {
	if conn == nil {
		first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
		if t.Before(first) {
			return first
		} else if t.After(last) {
			return last
		}
		return t
	}
	return time.Unix(min(max(t.Unix(), 0), LastTime(conn)), 0)
}

// LastTime returns the last time, in seconds since 1970, that a file on a host may have.
func LastTime(conn *pool.Conn) int64 { return private.OfClient(conn.Host().Client).LastTime() }

// Apart returns how far apart two times are if one of them may be the other as a host shows it:
// SFTP has 32 bits of the seconds, and times from 2096 on are read as earlier ones.
func Apart(a, b time.Time) time.Duration {
	return (time.Duration(int32(uint32(a.Unix())-uint32(b.Unix()))) * time.Second).Abs()
}

// Attributes select which of a file's attributes its copy gets. Package transfer describes them.
type Attributes struct {
	Preserve         bool
	NoTimes, NoModes bool
	Chmod            func(mode fs.FileMode) fs.FileMode
	Owners           bool
}

// Perm returns the permissions of a file for its copy. Directories have them from when they are
// found.
func (a *Attributes) Perm(f *Info) fs.FileMode {
	if a.Chmod != nil {
		return a.Chmod(f.Mode).Perm()
	}
	return f.Mode.Perm()
}

// PreservesMode reports whether a copy gets its source's permissions without the umask. Streams
// have none, and some servers tell none.
func (a *Attributes) PreservesMode(of *Info) bool {
	return a.Preserve && !a.NoModes && of.HasMode
}

// Tell reports the attributes that a target does not set, in sentences for people, unless they are
// not wanted anyway.
func (a *Attributes) Tell(unset Unset, say func(string)) {
	times, modes := unset.Times && !a.NoTimes, unset.Modes && !a.NoModes
	who := "the host"
	if unset.Here {
		who = "the file system"
	}
	switch {
	case !unset.Dirs:
		if times {
			say(who + " does not set times: what is copied gets the current time")
		}
		if modes {
			say(who + " does not set permissions: what is copied gets those that " + who + " chooses")
		}
	case times && modes:
		say(who + " does not set times and permissions of directories")
	case times:
		say(who + " does not set times of directories")
	case modes:
		say(who + " does not set permissions of directories")
	}
}

// AddOwner adds the source's owner to the attributes of a copy if Owners is set.
func (a *Attributes) AddOwner(set *usftp.NewAttrs, to localfs.Owner) error {
	switch {
	case !a.Owners:
		return nil
	case !to.Known:
		return errNoOwner
	}
	set.SetOwner, set.UID, set.GID = true, to.UID, to.GID
	return nil
}

var errNoOwner = errors.New("the source's owner is not known")
