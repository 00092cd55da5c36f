package filecopy

// Move is how bytes come from one file to another.
type Move string

// The moves.
const (
	// Clone has the file system share the blocks of a whole file (FICLONE).
	Clone Move = "clone"
	// Kernel has the kernel copy (copy_file_range).
	Kernel Move = "kernel"
	// Read reads and writes.
	Read Move = "read"
)

// Hashing is how what is copied is hashed.
type Hashing string

// The ways to hash.
const (
	// Reread reads the source once more, after the copy.
	Reread Hashing = "reread"
	// Follow reads the source once more, on another goroutine, piece by piece behind the copy.
	Follow Hashing = "follow"
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

// Facts are what the choice hangs on.
type Facts struct {
	Size       int64 // to be copied, as far as is known
	Hash       bool  // it is hashed
	Whole      bool  // all of a file is copied into an empty one
	NoClone    bool  // the file system cannot share blocks
	NoKernel   bool  // the kernel cannot copy
	Processors int   // that this process may use
}

// asideFrom is the size from which on a second processor pays for handing it the data.
const asideFrom = 4 << 20

// Choose says how to copy. It follows the table "Copies on one machine" in BENCHMARKS.md:
//
//   - Where the file system can share blocks (btrfs, XFS), a clone takes 20 µs whatever the size, and with a hash nothing is cheaper
//     than a clone and the one read that the hash needs. Where it cannot, asking costs about a microsecond.
//   - Without a hash the kernel's copy and reading and writing differ by less than they do from one run to the next. The kernel's is
//     taken, since it can share ranges, and leaves data on the server of a network file system.
//   - With a hash, reading once for both beats the kernel's copy with a second read at every size on tmpfs and on ext4, in
//     time and in processor time.
//   - A second processor shortens that where the hash takes as long as the copy, which large files show and small ones do not live long
//     enough for.
func Choose(f Facts) Plan {
	switch {
	case f.Whole && !f.NoClone && !f.NoKernel:
		return Plan{Clone, Reread}
	case !f.Hash && !f.NoKernel:
		return Plan{Move: Kernel}
	case !f.Hash:
		return Plan{Move: Read}
	case f.Size >= asideFrom && f.Processors > 1:
		return Plan{Read, TeeAside}
	}
	return Plan{Read, Tee}
}
