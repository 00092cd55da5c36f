package plan

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"hash/maphash"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/samename"
)

// An Inventory holds the facts about a target directory that comparing needs, in 24 bytes per
// entry, so that a directory of a million fits in memory.
type Inventory struct {
	owners  *Owners
	folding *Folding
	secret  [16]byte // the start of all digests' input, so that nobody can prepare two names for one
	parts   [][]Held // one, or split by the digest's first byte; sorted after the listing
	n       int
	files   int // entries that are not directories
	unseen  int // entries not seen in the source

	// spelt holds the source's names that a target might spell in another way; nil if not needed.
	spelt *spellings
}

// BigInventory is the size from which only one inventory may exist at a time.
const BigInventory = 64 << 10

// manyHeld is the number of entries from which an inventory is split into parts, which grow and are
// sorted with little extra memory.
const (
	manyHeld  = 4096
	heldParts = 256
)

// A digest stands for a name, which would take more space than the other facts. Among a million
// names, two collide with a chance of one in 10^12.
type digest [10]byte

// Held is an inventory's record of an entry of a target directory. The zero Held means that there
// is no entry.
type Held struct {
	name  digest
	owner uint16 // a number that owners gave, or 0
	mtime uint32 // the low 32 bits of the seconds, as in SFTP
	size  uint64 // the low 48 bits; above them mode, flags and the rest of the time
}

// The bits above the size: nine of permissions, two for the kind, and these flags. The highest two
// are bits 32 and 33 of the seconds, enough for times from 1698 to 2242.
const (
	heldSize  = 1<<48 - 1
	heldPerm  = 48
	heldKind  = 57
	heldTimed = 1 << 59
	heldSeen  = 1 << 60
	heldThere = 1 << 61
	heldEra   = 62
)

// A Kind is a type of file that a sync distinguishes.
type Kind uint8

const (
	File Kind = iota
	Dir
	Link
	Other
)

// kindOf returns the kind of file that a mode describes.
func kindOf(mode fs.FileMode) Kind {
	switch {
	case mode.IsRegular():
		return File
	case mode.IsDir():
		return Dir
	case mode&fs.ModeSymlink != 0:
		return Link
	}
	return Other
}

// Owners numbers the owners of files, from 1.
type Owners struct {
	mu      sync.Mutex
	numbers map[localfs.Owner]uint16
}

// number returns an owner's number, or 0 if the owner is unknown or there are too many.
func (o *Owners) number(owner localfs.Owner) uint16 {
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

// Hold returns the record of an entry, without its name.
func (o *Owners) Hold(f *endpoint.Info) Held {
	seconds := f.Mtime.Unix()
	h := Held{owner: o.number(f.Owner), size: heldThere | heldSizeOf(f), mtime: uint32(seconds)}
	h.size |= uint64(f.Mode.Perm())<<heldPerm | uint64(kindOf(f.Mode))<<heldKind |
		uint64(min(max(seconds>>32, -2), 1))<<heldEra
	if f.HasTimes {
		h.size |= heldTimed
	}
	return h
}

// IsThere reports whether the entry exists.
func (h Held) IsThere() bool { return h.size&heldThere != 0 }

// Kind and Perm return the type and the permissions of an existing entry.
func (h Held) Kind() Kind        { return Kind(h.size >> heldKind & 3) }
func (h Held) Perm() fs.FileMode { return fs.FileMode(h.size>>heldPerm) & fs.ModePerm }

func (h Held) sameSize(f *endpoint.Info) bool { return h.size&heldSize == heldSizeOf(f) }

// heldSizeOf returns the size bits of an entry. For a directory, whose size means nothing, they are
// the mode bits besides the permissions that a copy gets.
func heldSizeOf(f *endpoint.Info) uint64 {
	if f.Mode.IsDir() {
		return uint64(f.Mode&endpoint.DirBits) & heldSize
	}
	return uint64(f.Size) & heldSize
}

// age returns by how many whole seconds the source is newer than the target's entry.
func (h Held) age(f *endpoint.Info) (age time.Duration, known bool) {
	mtime := time.Unix(int64(h.size)>>heldEra<<32|int64(h.mtime), 0)
	return time.Unix(f.Mtime.Unix(), 0).Sub(mtime), h.timed(f)
}

// sameTime reports whether the times, of which SFTP has 32 bits, differ by no more than window.
func (h Held) sameTime(f *endpoint.Info, window time.Duration) bool {
	return endpoint.Apart(f.Mtime, time.Unix(int64(h.mtime), 0)) <= window && h.timed(f)
}

func (h Held) timed(f *endpoint.Info) bool { return h.size&heldTimed != 0 && f.HasTimes }

func (h Held) sameOwner(f *endpoint.Info, all *Owners) bool {
	return !f.Owner.Known || h.owner != 0 && h.owner == all.number(f.Owner)
}

// NewInventory returns the inventory of an empty directory.
func NewInventory(folding *Folding, owners *Owners) *Inventory {
	v := &Inventory{owners: owners, folding: folding, parts: make([][]Held, 1)}
	rand.Read(v.secret[:])
	return v
}

// KeepSpellings prepares for MaySpell. foldsCase is set if the target may take names that differ
// only in case for one.
func (v *Inventory) KeepSpellings(foldsCase bool) {
	v.spelt = &spellings{maphash.MakeSeed(), foldsCase, make(map[uint64]struct{})}
}

// Len returns the number of entries, Files the number of entries that are no directories, and
// Unseen the number of entries not yet taken.
func (v *Inventory) Len() int    { return v.n }
func (v *Inventory) Files() int  { return v.files }
func (v *Inventory) Unseen() int { return v.unseen }

// Reset empties the inventory, when a listing starts over.
func (v *Inventory) Reset() {
	v.parts, v.n, v.files, v.unseen = make([][]Held, 1), 0, 0, 0
}

// digest returns the same value for names that are one file at the target.
func (v *Inventory) digest(name string) digest {
	name = v.folding.form(name)
	var text [16 + 255]byte // as long as names are, so that nothing is allocated
	sum := sha256.Sum256(append(append(text[:0], v.secret[:]...), name...))
	return digest(sum[:len(digest{})])
}

func (v *Inventory) part(name digest) *[]Held { return &v.parts[int(name[0])%len(v.parts)] }

// Add adds an entry of the target.
func (v *Inventory) Add(name string, f *endpoint.Info) {
	h := v.owners.Hold(f)
	h.name = v.digest(name)
	if v.n == manyHeld {
		all := v.parts[0]
		v.parts = make([][]Held, heldParts)
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
	if h.Kind() != Dir {
		v.files++
	}
}

// Sort prepares for look-ups. It is called when all entries have been added.
func (v *Inventory) Sort() {
	for _, part := range v.parts {
		slices.SortFunc(part, func(a, b Held) int { return bytes.Compare(a.name[:], b.name[:]) })
	}
}

func (v *Inventory) find(name string) *Held {
	d := v.digest(name)
	part := *v.part(d)
	i, found := slices.BinarySearchFunc(part, d, func(h Held, d digest) int {
		return bytes.Compare(h.name[:], d[:])
	})
	if !found {
		return nil
	}
	return &part[i]
}

// Take looks up an entry of the source and marks it as seen.
func (v *Inventory) Take(name string) Held {
	if v.spelt != nil {
		v.spelt.add(name)
	}
	h := v.find(name)
	if h == nil {
		return Held{}
	}
	if h.size&heldSeen == 0 {
		h.size |= heldSeen
		v.unseen--
	}
	return *h
}

// Spare keeps the target's entry from being extra if it is a source's entry that does not take part,
// in another spelling.
func (v *Inventory) Spare(name string) {
	if v.spelt == nil {
		return
	}
	v.spelt.add(name)
	if v.folding.Case() {
		v.Take(name)
	}
}

// IsExtra reports whether the target had an entry of this name that was not seen in the source.
func (v *Inventory) IsExtra(name string) bool {
	h := v.find(name)
	return h != nil && h.size&heldSeen == 0
}

// MaySpell reports whether a name of the target may be another spelling of a name of the source.
// Where it is unknown whether case counts, other tells, the name in the other case: a directory
// that ignores case has it, too, and does not list it. other is "" if it need not be looked up.
func (v *Inventory) MaySpell(name string) (may bool, other string) {
	switch {
	case !v.spelt.has(name):
		return false, ""
	case !samename.IsASCII(name):
		return v.spelt.foldsCase || !v.hasBothSpellings(name), ""
	}
	if other = otherCase(name); v.find(other) != nil {
		return false, ""
	}
	return true, other
}

// hasBothSpellings reports whether the target lists a name both composed and decomposed: then it
// keeps spellings apart.
func (v *Inventory) hasBothSpellings(name string) bool {
	name = samename.Decoded(name)
	composed, decomposed := v.find(norm.NFC.String(name)), v.find(norm.NFD.String(name))
	return composed != nil && decomposed != nil && composed != decomposed
}

// Folding says which names a target takes for one. Both functions may have to wait for the answer.
type Folding struct {
	Case    func() bool // names that differ only in case
	Letters func() bool // names that spell a letter in another way
}

// form returns the same form for names that are one file at the target.
func (f *Folding) form(name string) string {
	letters := !samename.IsASCII(name) && f.Letters()
	if letters {
		name = norm.NFC.String(name)
	}
	if f.Case() {
		name = samename.Fold(name)
	}
	if letters {
		name = norm.NFC.String(name)
	}
	return name
}

// Some file systems store names in another spelling than they were given, decomposed for example,
// or take two spellings for one name. Such a target's listing then differs from the source's names,
// and a sync would delete files it has just copied. SFTP does not tell, so a sync never deletes a
// name that is another spelling of a source's name.

// spellings are the names of a source directory in a form that is the same for all their spellings.
// It keeps hashes only: a collision means that something is not deleted.
type spellings struct {
	seed maphash.Seed
	// foldsCase is set if the target may take names that differ only in case for one. Then all
	// names count, otherwise only those that Unicode can spell in several ways.
	foldsCase bool
	known     map[uint64]struct{}
}

// of returns a name's form. ok is false if the name has no other spelling.
func (s *spellings) of(name string) (form uint64, ok bool) {
	if !s.foldsCase && samename.IsASCII(name) {
		return 0, false
	}
	name = norm.NFC.String(samename.Decoded(name))
	if s.foldsCase {
		name = norm.NFC.String(samename.Fold(name))
	}
	return maphash.String(s.seed, name), true
}

func (s *spellings) add(name string) {
	if form, ok := s.of(name); ok {
		s.known[form] = struct{}{}
	}
}

// has reports whether a name is one of the source's in some spelling.
func (s *spellings) has(name string) bool {
	form, ok := s.of(name)
	if !ok {
		return false
	}
	_, known := s.known[form]
	return known
}

// otherCase returns an ASCII name with each letter in the other case.
func otherCase(name string) string {
	other := []byte(name)
	for i, c := range other {
		if letter := c | 0x20; letter >= 'a' && letter <= 'z' {
			other[i] ^= 0x20
		}
	}
	return string(other)
}
