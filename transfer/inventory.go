package transfer

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"io/fs"
	"slices"
	"time"

	"github.com/usftp/usftp/internal/localfs"
)

// An inventory holds what comparing needs of a target directory, in 24 bytes per entry besides its
// name, so that a directory of a million fits in memory.
type inventory struct {
	seed   maphash.Seed
	folds  func() bool // names that differ only in case are the same
	parts  [][]held    // one, or split by the hash's first bits; sorted after the listing
	names  [][]byte    // of the entries, each after its length
	n      int
	files  int // entries that are not directories
	unseen int // entries not seen in the source

	// spelt has the names in the source that a target might spell in another way; nil if nothing
	// is deleted.
	spelt *spellings
}

// manyHeld is the number of entries from which an inventory is split into parts, which grow and are
// sorted with little extra memory.
const (
	manyHeld  = 4096
	heldParts = 256
	namePiece = 1 << 16 // bytes of names that are kept together
)

// held is one entry of a target directory.
type held struct {
	name  uint64 // the first 16 bits of the name's hash, and where the name is
	size  uint64 // the low 48 bits; above them mode, flags and the rest of the time
	mtime uint32 // the low 32 bits of the seconds, as in SFTP
	owner uint32 // a digest
}

// The bits above the size: nine of permissions, two for the kind, and these flags. The highest two
// are bits 32 and 33 of the seconds, enough for times from 1698 to 2242.
const (
	heldSize   = 1<<48 - 1
	heldPerm   = 48
	heldKind   = 57
	heldTimed  = 1 << 59
	heldOwned  = 1 << 60
	heldSeen   = 1 << 61
	heldEra    = 62
	kindFile   = 0
	kindDir    = 1
	kindLink   = 2
	kindOthers = 3
)

// heldKindOf returns the kind of file that a mode describes.
func heldKindOf(mode fs.FileMode) uint64 {
	switch {
	case mode.IsRegular():
		return kindFile
	case mode.IsDir():
		return kindDir
	case mode&fs.ModeSymlink != 0:
		return kindLink
	}
	return kindOthers
}

func ownerDigest(o localfs.Owner) uint32 { return uint32(o.UID)*2654435761 ^ uint32(o.GID) }

func newHeld(f *facts) held {
	seconds := f.mtime.Unix()
	h := held{size: heldSizeOf(f), mtime: uint32(seconds), owner: ownerDigest(f.owner)}
	h.size |= uint64(f.mode.Perm())<<heldPerm | heldKindOf(f.mode)<<heldKind |
		uint64(min(max(seconds>>32, -2), 1))<<heldEra
	if f.hasTimes {
		h.size |= heldTimed
	}
	if f.owner.Known {
		h.size |= heldOwned
	}
	return h
}

func (h held) kind() uint64      { return h.size >> heldKind & 3 }
func (h held) perm() fs.FileMode { return fs.FileMode(h.size>>heldPerm) & fs.ModePerm }

func (h held) sameSize(f *facts) bool { return h.size&heldSize == heldSizeOf(f) }

// heldSizeOf returns what is held of a size. A directory, whose size says nothing, has those bits
// of its mode instead that a copy gets beside its permissions.
func heldSizeOf(f *facts) uint64 {
	if f.mode.IsDir() {
		return uint64(f.mode&dirBits) & heldSize
	}
	return uint64(f.size) & heldSize
}

// age returns by how many whole seconds the source is newer than the target's entry.
func (h held) age(f *facts) (age time.Duration, known bool) {
	mtime := time.Unix(int64(h.size)>>heldEra<<32|int64(h.mtime), 0)
	return time.Unix(f.mtime.Unix(), 0).Sub(mtime), h.timed(f)
}

// sameTime reports whether the times, of which SFTP has 32 bits, differ by no more than window.
func (h held) sameTime(f *facts, window time.Duration) bool {
	apart := time.Duration(int32(uint32(f.mtime.Unix())-h.mtime)) * time.Second
	return apart.Abs() <= window && h.timed(f)
}

func (h held) timed(f *facts) bool { return h.size&heldTimed != 0 && f.hasTimes }

func (h held) sameOwner(f *facts) bool {
	return !f.owner.Known || h.size&heldOwned != 0 && h.owner == ownerDigest(f.owner)
}

func newInventory(folds func() bool, spelt *spellings) *inventory {
	return &inventory{seed: maphash.MakeSeed(), folds: folds, parts: make([][]held, 1), spelt: spelt}
}

// reset empties the inventory, when a listing starts over.
func (v *inventory) reset() {
	v.parts, v.names, v.n, v.files, v.unseen = make([][]held, 1), nil, 0, 0, 0
}

// key returns the same string for names that are one file at the target, and 16 bits of its hash.
func (v *inventory) key(name string) (key string, hash uint64) {
	if v.folds() {
		name = localfs.FoldName(name)
	}
	return name, maphash.String(v.seed, name) >> 48 << 48
}

// keep stores a key and returns where it is.
func (v *inventory) keep(key string) (at uint64) {
	last := len(v.names) - 1
	need := binary.MaxVarintLen32 + len(key)
	if last < 0 || len(v.names[last])+need > namePiece {
		var piece []byte // the first grows with its names: most directories are small
		if last >= 0 {
			piece = make([]byte, 0, max(namePiece, need))
		}
		v.names = append(v.names, piece)
		last++
	}
	p := v.names[last]
	at = uint64(last)*namePiece + uint64(len(p))
	v.names[last] = append(binary.AppendUvarint(p, uint64(len(key))), key...)
	return at
}

// keyOf returns an entry's key.
func (v *inventory) keyOf(h *held) []byte {
	at := h.name & (1<<48 - 1)
	p := v.names[at/namePiece][at%namePiece:]
	n, size := binary.Uvarint(p)
	return p[size : size+int(n)]
}

func (v *inventory) part(hash uint64) *[]held {
	if len(v.parts) == 1 {
		return &v.parts[0]
	}
	return &v.parts[hash>>56]
}

func (v *inventory) add(name string, f *facts) {
	h := newHeld(f)
	key, hash := v.key(name)
	h.name = hash | v.keep(key)
	if v.n == manyHeld {
		all := v.parts[0]
		v.parts = make([][]held, heldParts)
		for _, h := range all {
			p := v.part(h.name)
			*p = append(*p, h)
		}
	}
	p := v.part(h.name)
	if len(*p) == cap(*p) { // append alone would grow it by a quarter
		*p = slices.Grow(*p, max(8, len(*p)/16))
	}
	*p = append(*p, h)
	v.n++
	v.unseen++
	if h.kind() != kindDir {
		v.files++
	}
}

// sort prepares for find.
func (v *inventory) sort() {
	for _, part := range v.parts {
		slices.SortFunc(part, func(a, b held) int {
			if order := cmp.Compare(a.name>>48, b.name>>48); order != 0 {
				return order
			}
			return bytes.Compare(v.keyOf(&a), v.keyOf(&b))
		})
	}
}

func (v *inventory) find(name string) *held {
	key, hash := v.key(name)
	part := *v.part(hash)
	i, found := slices.BinarySearchFunc(part, []byte(key), func(h held, key []byte) int {
		if order := cmp.Compare(h.name>>48, hash>>48); order != 0 {
			return order
		}
		return bytes.Compare(v.keyOf(&h), key)
	})
	if !found {
		return nil
	}
	return &part[i]
}

// take looks up an entry of the source and marks it as seen.
func (v *inventory) take(name string) (entry held, present bool) {
	if v.spelt != nil {
		v.spelt.add(name)
	}
	h := v.find(name)
	if h == nil {
		return held{}, false
	}
	if h.size&heldSeen == 0 {
		h.size |= heldSeen
		v.unseen--
	}
	return *h, true
}

// extra reports whether the target had an entry of this name that was not seen in the source.
func (v *inventory) extra(name string) bool {
	h := v.find(name)
	return h != nil && h.size&heldSeen == 0
}
