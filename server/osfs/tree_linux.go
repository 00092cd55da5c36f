package osfs

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/wire"
)

const (
	// openDirectory opens a directory to walk through it, which needs no permission to list it.
	openDirectory = unix.O_PATH | unix.O_DIRECTORY

	// openAny opens anything, to get its attributes.
	openAny = unix.O_PATH
)

// withSlash returns the last element of a path that ends in a slash. System calls that make, remove
// or rename do not follow a link there.
func withSlash(_ int, element string) (string, error) { return element + "/", nil }

// openWithin opens the directory at path below dir, and refuses links. Before Linux 5.6, and in
// some containers, it fails.
func openWithin(dir int, path string) (fd int, err error) {
	err = retry(func() error {
		fd, err = unix.Openat2(dir, path, &unix.OpenHow{
			Flags:   uint64(openDirectory | unix.O_CLOEXEC),
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
		})
		return err
	})
	return fd, err
}

func renameNoReplace(from int, old string, to int, base string) error {
	return unix.Renameat2(from, old, to, base, unix.RENAME_NOREPLACE)
}

// chmodAt calls fchmodat(2), which before Linux 6.6 could not leave links alone.
func chmodAt(dir int, base string, mode uint32, flags int) error {
	err := unix.Fchmodat(dir, base, mode, flags)
	if err != unix.EOPNOTSUPP || flags == 0 {
		return err
	}
	fd, err := unix.Openat(dir, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
}

// futimes works like futimens(3). Before Linux 5.8 it needs /proc, which is slower, and missing in
// some containers.
func futimes(fd int, atime, mtime time.Time) error {
	err := unix.UtimesNanoAt(fd, "", []unix.Timespec{unix.NsecToTimespec(atime.UnixNano()),
		unix.NsecToTimespec(mtime.UnixNano())}, unix.AT_EMPTY_PATH)
	if err != unix.EINVAL {
		return err
	}
	return unix.Futimes(fd, []unix.Timeval{unix.NsecToTimeval(atime.UnixNano()),
		unix.NsecToTimeval(mtime.UnixNano())})
}

func statVFS(fd int) (reply wire.StatVFSReply, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return reply, err
	}
	reply = wire.StatVFSReply{
		BlockSize:       uint64(st.Bsize),
		FragmentSize:    uint64(st.Frsize),
		Blocks:          st.Blocks,
		BlocksFree:      st.Bfree,
		BlocksAvailable: st.Bavail,
		Files:           st.Files,
		FilesFree:       st.Ffree,
		FilesAvailable:  st.Ffree,
		FSID:            uint64(uint32(st.Fsid.Val[0])) | uint64(uint32(st.Fsid.Val[1]))<<32,
		NameMax:         uint64(st.Namelen),
	}
	if reply.FragmentSize == 0 {
		reply.FragmentSize = reply.BlockSize
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		reply.Flags |= wire.StatVFSReadOnly
	}
	if st.Flags&unix.ST_NOSUID != 0 {
		reply.Flags |= wire.StatVFSNoSetuid
	}
	return reply, nil
}
