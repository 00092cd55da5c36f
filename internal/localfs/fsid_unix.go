//go:build linux || darwin

package localfs

import "golang.org/x/sys/unix"

// FileSystemID returns the number by which statvfs identifies the file system that holds a path,
// with its halves in both orders, since systems do not agree on theirs. Zeros mean unknown.
func FileSystemID(name string) [2]uint64 {
	var st unix.Statfs_t
	if unix.Statfs(name, &st) != nil {
		return [2]uint64{}
	}
	low, high := uint64(uint32(st.Fsid.Val[0])), uint64(uint32(st.Fsid.Val[1]))
	return [2]uint64{low | high<<32, low<<32 | high}
}
