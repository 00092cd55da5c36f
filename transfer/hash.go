package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"runtime"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/usftp/usftp"
)

// Algorithm names a hash function. "" stands for none.
type Algorithm string

// The algorithms, both with 32 bytes of hash. SHA-256 is what every host that hashes files has, and
// what lists of files are made of; BLAKE3 is several times as fast on processors without
// instructions for SHA-256, twice on those that have them, and usftp's own server has it.
const (
	SHA256 Algorithm = "sha256"
	BLAKE3 Algorithm = "blake3"
)

// hashSize is the length of either's hash, in bytes.
const hashSize = 32

// ParseAlgorithm takes the name of an algorithm.
func ParseAlgorithm(name string) (Algorithm, error) {
	switch a := Algorithm(name); a {
	case SHA256, BLAKE3:
		return a, nil
	}
	return "", fmt.Errorf("%q is no hash that is known here: there are sha256 and blake3", name)
}

// New returns a new hash of this algorithm. It panics where there is none.
func (a Algorithm) New() hash.Hash {
	switch a {
	case SHA256:
		return sha256.New()
	case BLAKE3:
		return blake3.New()
	}
	panic("transfer: there is no hash " + string(a))
}

// atHost is the name that hosts know an algorithm by.
func (a Algorithm) atHost() string {
	if a == BLAKE3 {
		return usftp.AlgorithmBLAKE3
	}
	return string(a)
}

// Hash is the hash of a file's contents. The zero Hash is none.
type Hash struct {
	Algorithm Algorithm
	Sum       []byte
}

// IsZero tells whether there is no hash.
func (h Hash) IsZero() bool { return h.Algorithm == "" }

// Equal tells whether two hashes are the same, by the same algorithm. Two that are none are not.
func (h Hash) Equal(other Hash) bool {
	return !h.IsZero() && h.Algorithm == other.Algorithm && slices.Equal(h.Sum, other.Sum)
}

// String returns "sha256:" and the hash in hexadecimal, or "" where there is none.
func (h Hash) String() string {
	if h.IsZero() {
		return ""
	}
	return string(h.Algorithm) + ":" + hex.EncodeToString(h.Sum)
}

// MarshalText makes hashes readable in JSON.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// digest hashes what passes, all of it or piece by piece.
type digest struct {
	algorithm Algorithm
	piece     int64 // bytes that one hash is taken of; 0 means one hash of all
	state     hash.Hash
	filled    int64    // of the present piece
	sums      [][]byte // of the pieces that are complete
}

func newDigest(algorithm Algorithm, piece int64) *digest {
	return &digest{algorithm: algorithm, piece: piece, state: algorithm.New()}
}

func (d *digest) write(p []byte) {
	for d.piece > 0 && d.filled+int64(len(p)) >= d.piece {
		rest := d.piece - d.filled
		d.state.Write(p[:rest])
		p = p[rest:]
		d.sums = append(d.sums, d.state.Sum(nil))
		d.state.Reset()
		d.filled = 0
	}
	d.state.Write(p)
	d.filled += int64(len(p))
}

// finish completes the last piece. Of nothing at all there is one hash.
func (d *digest) finish() {
	if d.filled > 0 || len(d.sums) == 0 {
		d.sums = append(d.sums, d.state.Sum(nil))
		d.filled = 0
	}
}

// digests are those that are taken of one file.
type digests []*digest

func (all digests) write(p []byte) {
	for _, d := range all {
		d.write(p)
	}
}

func (all digests) finish() {
	for _, d := range all {
		d.finish()
	}
}

// piecePerRequest is how much of a file one request has the host hash, where nothing else is to be
// had from the pieces' hashes; see hashPiece. piecePerWhole is it where the hash of the whole file
// is wanted too, and serves for both as long as the file is one piece. Seconds pass then until the
// host answers, and fewer bytes are hashed twice here.
const (
	piecePerRequest = hashPiece
	piecePerWhole   = 1 << 30
)

// newDigests returns what is to be hashed of a file of a size, -1 where that is not known: for
// people the whole, for the host pieces.
func (r *run) newDigests(size int64) (all digests) {
	if whole := r.Options.Hash; whole != "" {
		all = append(all, newDigest(whole, 0))
	}
	// what is on this machine is compared byte by byte
	if !r.Options.Verify || r.Direction == Local {
		return all
	}
	algorithm, piece := r.checkAlgorithm(), int64(piecePerRequest)
	if r.Options.Hash == algorithm {
		piece = piecePerWhole
		if size >= 0 && size <= piece {
			return all
		}
	}
	return append(all, newDigest(algorithm, piece))
}

// fastest is the algorithm that takes the least time here: the BLAKE3 that is linked in is written
// for vectors of x86-64 only, and others have instructions for SHA-256.
func fastest() Algorithm {
	if runtime.GOARCH == "amd64" {
		return BLAKE3
	}
	return SHA256
}

// checkAlgorithm chooses the algorithm by which what the host has stored is compared: what is
// hashed anyway if the host may have it, else the fastest if the host says that it has it, else
// SHA-256.
func (r *run) checkAlgorithm() Algorithm {
	client := r.Host.Client
	known := client.CheckFileAlgorithms()
	has := func(a Algorithm) bool { return slices.Contains(known, a.atHost()) }
	switch wanted := r.Options.Hash; {
	case !client.HasCheckFile():
		if wanted != "" {
			return wanted
		}
		return fastest() // what is read back is hashed here
	case wanted != "" && has(wanted), wanted == SHA256:
		return wanted
	case has(fastest()):
		return fastest()
	}
	return SHA256
}

// whole returns the hash of the whole file that was asked for.
func (all digests) whole(algorithm Algorithm) Hash {
	if algorithm == "" || len(all) == 0 {
		return Hash{}
	}
	return Hash{algorithm, all[0].sums[0]}
}

// check returns what the host is to be compared with.
func (all digests) check() *digest { return all[len(all)-1] }
