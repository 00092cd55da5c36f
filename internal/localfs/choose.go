package localfs

// Move is the way bytes get from one file to another.
type Move string

// The moves.
const (
	// Clone makes the file system share the blocks of a whole file (FICLONE).
	Clone Move = "clone"
	// Kernel lets the kernel copy (copy_file_range).
	Kernel Move = "kernel"
	// Read reads and writes.
	Read Move = "read"
)

// Hashing is the way the copied data is hashed.
type Hashing string

// The ways to hash.
const (
	// Reread reads the source once more, after the copy.
	Reread Hashing = "reread"
	// Tee hashes each buffer before it is written. For Read only.
	Tee Hashing = "tee"
	// TeeAside hashes each buffer on another goroutine, while it is written. For Read only.
	TeeAside Hashing = "aside"
)

// Plan is a way to copy.
type Plan struct {
	Move Move
	Hash Hashing // where there is a hash
}

// Facts are the facts that decide the choice.
type Facts struct {
	Size       int64 // to be copied, if known
	Hash       bool  // it is hashed
	Whole      bool  // all of a file is copied into an empty one
	NoClone    bool  // the file system cannot share blocks
	NoKernel   bool  // the kernel cannot copy
	Remote     bool  // the target lies on another machine, which may be able to copy by itself
	Processors int   // that this process may use
}

// asideFrom is the size from which handing the data to a second processor pays off.
const asideFrom = 4 << 20

// Choose returns the way to copy. It follows the table "Copies on one machine" in bench/details.md:
//
//   - Where the file system can share blocks (btrfs, XFS), a clone takes some 20 µs whatever the
//     size. With a hash, nothing beats a clone and one read for the hash by more than those 20 µs.
//     Where it cannot, asking costs about a microsecond.
//   - Reading and writing 256 KiB at a time takes no longer than copy_file_range, and on ext4 a
//     fifth less for 10 MB. So the kernel copies only where it may do better: it may share blocks
//     of parts of files, and a file server may copy without sending anything.
//   - With a hash, reading once for both takes less processor time than two reads at every size,
//     and less than copy_file_range with a second read.
//   - Another processor for the hash costs a tenth more processor time, and a third more for 10 KB.
//     It shortens long copies, where there is one.
func Choose(f Facts) Plan {
	switch {
	case f.Whole && !f.NoClone && !f.NoKernel:
		return Plan{Clone, Reread}
	case !f.NoKernel && (f.Remote || !f.Whole && !f.Hash):
		return Plan{Kernel, Reread}
	case f.Hash && f.Size >= asideFrom && f.Processors > 1:
		return Plan{Read, TeeAside}
	}
	return Plan{Read, Tee}
}
