//go:build linux || darwin

package localfs

import "golang.org/x/sys/unix"

// FileSystemID returns what statvfs tells programs of the file system that holds a path: one of
// two, since systems do not agree on the order of its halves. Zeros mean that it is not known.
func FileSystemID(name string) [2]uint64 {
	var st unix.Statfs_t
	if unix.Statfs(name, &st) != nil {
		return [2]uint64{}
	}
	low, high := uint64(uint32(st.Fsid.Val[0])), uint64(uint32(st.Fsid.Val[1]))
	return [2]uint64{low | high<<32, low<<32 | high}
}
