package transfer

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
)

// An inventory holds what comparing needs of a target directory, in 24 bytes per entry, so that a
// directory of a million fits in memory.
type inventory struct {
	owners *owners
	secret [16]byte        // what digests begin with, so that nobody can prepare two names for one
	folds  func() bool     // names that differ only in case are the same
	spells func() bool     // so are those that spell a letter in another way
	parts  [][]targetEntry // one, or split by the digest's first byte; sorted after the listing
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
)

// A digest stands for a name, which would take more than the rest. Among a million names, two have
// the same with a chance of one in 10^12.
type digest [10]byte

// A targetEntry is one entry of a target directory, in an inventory.
type targetEntry struct {
	name  digest
	owner uint16 // a number that owners gave, or 0
	mtime uint32 // the low 32 bits of the seconds, as in SFTP
	size  uint64 // the low 48 bits; above them mode, flags and the rest of the time
}

// The bits above the size: nine of permissions, two for the kind, and these flags. The highest two
// are bits 32 and 33 of the seconds, enough for times from 1698 to 2242.
const (
	heldSize   = 1<<48 - 1
	heldPerm   = 48
	heldKind   = 57
	heldTimed  = 1 << 59
	heldSeen   = 1 << 60
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

// inventories are what all inventories of a sync share.
type inventories struct {
	owners owners
	big    sync.Mutex // held by the walker that has a large inventory: only one may at a time

	sync  *syncing
	asked endpoint.Once // what the target sets, when that first matters
	told  sync.Once     // that times are not compared
}

func (v *inventories) keepsTimes() bool {
	v.find(true)
	times, _ := v.keeps()
	return times
}

func (v *inventories) keepsModes() bool {
	v.find(false)
	_, modes := v.keeps()
	return modes
}

// keeps reports whether the target sets times and modes, as far as is known, and should.
func (v *inventories) keeps() (times, modes bool) {
	s := v.sync
	times, modes = !s.options.NoTimes, !s.options.NoModes
	if conn := s.tree.dst.Conn(); conn != nil {
		q := quirksOf(conn)
		times, modes = times && !q.NoTimes.Load(), modes && !q.NoModes.Load()
	}
	return times, modes
}

func quirksOf(conn *pool.Conn) *quirks.Quirks {
	host := conn.Host()
	return pools.OfHost(&host).Quirks()
}

// find finds out what the target sets. The caller says that times are not set if it has to compare
// them.
func (v *inventories) find(comparing bool) { v.asked.Do(func() { v.probe(comparing) }) }

// owners numbers the owners of files, from 1.
type owners struct {
	mu      sync.Mutex
	numbers map[localfs.Owner]uint16
}

// number returns an owner's number, or 0 if it is not known or there are too many.
func (o *owners) number(owner localfs.Owner) uint16 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, ok := o.numbers[owner]
	if !ok && owner.Known && len(o.numbers) < math.MaxUint16 {
		if o.numbers == nil {
			o.numbers = make(map[localfs.Owner]uint16)
		}
		n = uint16(len(o.numbers) + 1)
		o.numbers[owner] = n
	}
	return n
}

func newTargetEntry(f *endpoint.Info) targetEntry {
	seconds := f.Mtime.Unix()
	h := targetEntry{size: heldSizeOf(f), mtime: uint32(seconds)}
	h.size |= uint64(f.Mode.Perm())<<heldPerm | heldKindOf(f.Mode)<<heldKind |
		uint64(min(max(seconds>>32, -2), 1))<<heldEra
	if f.HasTimes {
		h.size |= heldTimed
	}
	return h
}

func (h targetEntry) kind() uint64      { return h.size >> heldKind & 3 }
func (h targetEntry) perm() fs.FileMode { return fs.FileMode(h.size>>heldPerm) & fs.ModePerm }

func (h targetEntry) sameSize(f *endpoint.Info) bool { return h.size&heldSize == heldSizeOf(f) }

// heldSizeOf returns what is held of a size. A directory, whose size says nothing, has those bits
// of its mode instead that a copy gets beside its permissions.
func heldSizeOf(f *endpoint.Info) uint64 {
	if f.Mode.IsDir() {
		return uint64(f.Mode&endpoint.DirBits) & heldSize
	}
	return uint64(f.Size) & heldSize
}

// age returns by how many whole seconds the source is newer than the target's entry.
func (h targetEntry) age(f *endpoint.Info) (age time.Duration, known bool) {
	mtime := time.Unix(int64(h.size)>>heldEra<<32|int64(h.mtime), 0)
	return time.Unix(f.Mtime.Unix(), 0).Sub(mtime), h.timed(f)
}

// sameTime reports whether the times, of which SFTP has 32 bits, differ by no more than window.
func (h targetEntry) sameTime(f *endpoint.Info, window time.Duration) bool {
	apart := time.Duration(int32(uint32(f.Mtime.Unix())-h.mtime)) * time.Second
	return apart.Abs() <= window && h.timed(f)
}

func (h targetEntry) timed(f *endpoint.Info) bool { return h.size&heldTimed != 0 && f.HasTimes }

func (h targetEntry) sameOwner(f *endpoint.Info, all *owners) bool {
	return !f.Owner.Known || h.owner != 0 && h.owner == all.number(f.Owner)
}

func newInventory(folds, spells func() bool, owners *owners, spelt *spellings) *inventory {
	v := &inventory{owners: owners, folds: folds, spells: spells, parts: make([][]targetEntry, 1),
		spelt: spelt}
	rand.Read(v.secret[:])
	return v
}

// reset empties the inventory, when a listing starts over.
func (v *inventory) reset() {
	v.parts, v.n, v.files, v.unseen = make([][]targetEntry, 1), 0, 0, 0
}

// digest returns the same for names that are one file at the target.
func (v *inventory) digest(name string) digest {
	letters := !endpoint.IsASCII(name) && v.spells()
	if letters {
		name = norm.NFC.String(name)
	}
	if v.folds() {
		name = localfs.FoldName(name)
	}
	if letters {
		name = norm.NFC.String(name)
	}
	var text [16 + 255]byte // as long as names are, so that nothing is allocated
	sum := sha256.Sum256(append(append(text[:0], v.secret[:]...), name...))
	return digest(sum[:len(digest{})])
}

func (v *inventory) part(name digest) *[]targetEntry { return &v.parts[int(name[0])%len(v.parts)] }

func (v *inventory) add(name string, f *endpoint.Info) {
	h := newTargetEntry(f)
	h.name, h.owner = v.digest(name), v.owners.number(f.Owner)
	if v.n == manyHeld {
		all := v.parts[0]
		v.parts = make([][]targetEntry, heldParts)
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
		slices.SortFunc(part, func(a, b targetEntry) int { return bytes.Compare(a.name[:], b.name[:]) })
	}
}

func (v *inventory) find(name string) *targetEntry {
	d := v.digest(name)
	part := *v.part(d)
	i, found := slices.BinarySearchFunc(part, d, func(h targetEntry, d digest) int {
		return bytes.Compare(h.name[:], d[:])
	})
	if !found {
		return nil
	}
	return &part[i]
}

// take looks up an entry of the source and marks it as seen.
func (v *inventory) take(name string) (entry targetEntry, present bool) {
	if v.spelt != nil {
		v.spelt.add(name)
	}
	h := v.find(name)
	if h == nil {
		return targetEntry{}, false
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
