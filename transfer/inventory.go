package transfer

import (
	"cmp"
	"hash/maphash"
	"io/fs"
	"slices"
	"time"

	"github.com/usftp/usftp/internal/localfs"
)

// An inventory is what a directory of the target holds, as far as comparing needs it: 24 bytes an
// entry, so that a directory of a million fits in memory. It keeps a hash of each name: that two of
// a million names are taken for one has a chance of one in thirty million, nobody who chooses the
// names can raise it, and what it costs is a file that is not copied, or not deleted.
type inventory struct {
	seed   maphash.Seed
	parts  [][]held // one, or by the first bits of the hash; sorted once the listing is over
	n      int
	unseen int // entries that the source has not
}

// manyHeld is from how many entries on an inventory is kept in parts: they grow, and are sorted, with
// little memory besides.
const (
	manyHeld  = 4096
	heldParts = 256
)

// held is one entry of a directory of the target.
type held struct {
	name  uint64 // its hash
	size  uint64 // the low 48 bits; then mode and flags
	mtime uint32 // the low 32 bits of its seconds, as SFTP has them
	owner uint32 // a digest
}

// The bits above a size are nine of permissions, two that say what it is, and these.
const (
	heldSize   = 1<<48 - 1
	heldPerm   = 48
	heldKind   = 57
	heldTimed  = 1 << 59
	heldOwned  = 1 << 60
	heldSeen   = 1 << 61
	kindFile   = 0
	kindDir    = 1
	kindLink   = 2
	kindOthers = 3
)

// heldKindOf is what a mode says a file is.
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
	h := held{size: uint64(f.size) & heldSize, mtime: uint32(f.mtime.Unix()),
		owner: ownerDigest(f.owner)}
	h.size |= uint64(f.mode.Perm())<<heldPerm | heldKindOf(f.mode)<<heldKind
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

func (h held) sameSize(f *facts) bool { return h.size&heldSize == uint64(f.size)&heldSize }

// age returns how much later the source was written to than the entry of the target, in whole
// seconds.
func (h held) age(f *facts) (age time.Duration, known bool) {
	if h.size&heldTimed == 0 || !f.hasTimes {
		return 0, false
	}
	return time.Duration(int32(uint32(f.mtime.Unix())-h.mtime)) * time.Second, true
}

// sameTime reports whether the times differ by no more than a window.
func (h held) sameTime(f *facts, window time.Duration) bool {
	age, known := h.age(f)
	return known && age.Abs() <= window
}

func (h held) sameOwner(f *facts) bool {
	return !f.owner.Known || h.size&heldOwned != 0 && h.owner == ownerDigest(f.owner)
}

func newInventory() *inventory {
	return &inventory{seed: maphash.MakeSeed(), parts: make([][]held, 1)}
}

// reset forgets everything, when a listing is started again.
func (v *inventory) reset() { v.parts, v.n, v.unseen = make([][]held, 1), 0, 0 }

// hash returns the hash of a name. Where names that differ only in case are one file it is the same.
func (v *inventory) hash(name string) uint64 {
	if localfs.FoldsCase {
		name = localfs.FoldName(name)
	}
	return maphash.String(v.seed, name)
}

func (v *inventory) part(hash uint64) *[]held {
	if len(v.parts) == 1 {
		return &v.parts[0]
	}
	return &v.parts[hash>>56]
}

func (v *inventory) add(name string, f *facts) {
	h := newHeld(f)
	h.name = v.hash(name)
	if v.n == manyHeld {
		all := v.parts[0]
		v.parts = make([][]held, heldParts)
		for _, h := range all {
			p := v.part(h.name)
			*p = append(*p, h)
		}
	}
	p := v.part(h.name)
	if len(*p) == cap(*p) { // append would take a quarter more than there is
		*p = slices.Grow(*p, max(8, len(*p)/16))
	}
	*p = append(*p, h)
	v.n++
	v.unseen++
}

// sort makes find possible.
func (v *inventory) sort() {
	for _, part := range v.parts {
		slices.SortFunc(part, func(a, b held) int { return cmp.Compare(a.name, b.name) })
	}
}

func (v *inventory) find(name string) *held {
	hash := v.hash(name)
	part := *v.part(hash)
	i, found := slices.BinarySearchFunc(part, hash, func(h held, hash uint64) int {
		return cmp.Compare(h.name, hash)
	})
	if !found {
		return nil
	}
	return &part[i]
}

// take returns an entry that the source has too.
func (v *inventory) take(name string) (there held, present bool) {
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

// extra reports whether the target had an entry when it was listed that the source has not.
func (v *inventory) extra(name string) bool {
	h := v.find(name)
	return h != nil && h.size&heldSeen == 0
}
