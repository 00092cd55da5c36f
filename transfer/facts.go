package transfer

import (
	"io/fs"
	"math"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
)

// facts is what is known about a file.
type facts struct {
	mode     fs.FileMode
	hasMode  bool
	size     int64 // -1 if unknown
	mtime    time.Time
	atime    time.Time
	hasTimes bool
	owner    localfs.Owner
	id       string      // of a local file
	info     fs.FileInfo // of a local file
}

// regular reports whether it is a regular file of known size.
func (f *facts) regular() bool { return f.hasMode && f.mode.IsRegular() && f.size >= 0 }

// remoteFacts returns what a server said about a file.
func remoteFacts(stat *usftp.FileStat) (f facts) {
	f.setStat(stat)
	return f
}

// setStat sets facts from what a server said about a file. It is not inlined, to keep the stacks of
// thousands of files small.
//
//go:noinline
func (f *facts) setStat(stat *usftp.FileStat) {
	*f = facts{size: -1}
	if stat == nil {
		return
	}
	f.hasMode, f.hasTimes, f.mtime, f.atime = stat.HasMode(), stat.HasTimes(), stat.ModTime(),
		stat.AccessTime()
	f.owner = localfs.Owner{UID: int(stat.UID), GID: int(stat.GID), Known: stat.HasOwner()}
	if stat.HasMode() {
		f.mode = stat.FileMode()
	}
	if stat.HasSize() && int64(stat.Size) >= 0 {
		f.size = int64(stat.Size)
	}
}

func localFacts(info fs.FileInfo) (f facts) {
	f.setInfo(info)
	return f
}

// setInfo sets facts from what the system says about a file. For noinline see setStat.
//
//go:noinline
func (f *facts) setInfo(info fs.FileInfo) {
	*f = facts{mode: info.Mode(), hasMode: true, size: info.Size(), mtime: info.ModTime(),
		atime: info.ModTime(), hasTimes: true, owner: localfs.OwnerOf(info), info: info}
}

// perm returns the permissions to make a directory with.
func (f *facts) perm() fs.FileMode {
	if !f.hasMode {
		return 0o777
	}
	return f.mode.Perm()
}

// dirBits are the mode bits besides the permissions that the copy of a directory gets. On a
// directory they give nobody the rights of another user: one says who may delete files in it, the
// other which group new files have.
const dirBits = fs.ModeSetgid | fs.ModeSticky

// times returns the times that a copy should get. OpenSSH sends a time before 1970 as the low 32
// bits of its seconds, which reads as a time after 2038. So a server's time more than a year ahead
// is taken to be in the past; no server can be sent such a time.
func (f *facts) times() (atime, mtime time.Time) {
	if f.info != nil { // not from a server
		return f.atime, f.mtime
	}
	soon := time.Now().AddDate(1, 0, 0)
	past := func(t time.Time) time.Time {
		if seconds := t.Unix(); seconds > math.MaxInt32 && t.After(soon) {
			return time.Unix(int64(int32(seconds)), 0)
		}
		return t
	}
	return past(f.atime), past(f.mtime)
}

// nearest returns the time closest to t that SFTP has.
func nearest(t time.Time) time.Time {
	return time.Unix(min(max(t.Unix(), 0), math.MaxUint32), 0)
}

// unchanged compares a source as it was before reading with what it is afterwards, and with how
// much was read. A file of size 0 may hold data all the same, as in /proc.
func unchanged(before, after *facts, read int64) error {
	switch {
	case after.size < before.size:
		return changedf("it shrank from %d bytes to %d", before.size, after.size)
	case after.size > before.size:
		return changedf("it grew from %d bytes to %d", before.size, after.size)
	case before.size > 0 && read != before.size:
		return changedf("it had %d bytes and %d were read", before.size, read)
	case !before.mtime.Equal(after.mtime):
		return errTouched
	}
	return nil
}

// errTouched reports that only a source's modification time changed.
var errTouched = changedf("its modification time changed")
