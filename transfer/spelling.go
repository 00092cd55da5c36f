package transfer

import (
	"hash/maphash"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// Some file systems store names in another spelling than they were given, decomposed for example,
// or take two spellings for one name. What such a target lists is then not what the source has, and
// a sync would delete what it has just copied. SFTP does not tell, so a name is never deleted that
// is a name of the source in another spelling.

// spellings are the names of a source directory in a form that is the same for all their spellings.
// It keeps hashes only: a collision means that something is not deleted.
type spellings struct {
	seed maphash.Seed
	// foldsCase is set if the target may take names that differ only in case for one. Then all
	// names count, otherwise only those that Unicode can spell in several ways.
	foldsCase bool
	known     map[uint64]struct{}
}

func newSpellings(foldsCase bool) *spellings {
	return &spellings{seed: maphash.MakeSeed(), foldsCase: foldsCase, known: map[uint64]struct{}{}}
}

// of returns a name's form. ok is false if the name has no other spelling.
func (s *spellings) of(name string) (form uint64, ok bool) {
	if !s.foldsCase && endpoint.IsASCII(name) {
		return 0, false
	}
	name = norm.NFC.String(name)
	if s.foldsCase {
		name = norm.NFC.String(localfs.FoldName(name))
	}
	return maphash.String(s.seed, name), true
}

func (s *spellings) add(name string) {
	if form, ok := s.of(name); ok {
		s.known[form] = struct{}{}
	}
}

// has reports whether a name is one of them in some spelling.
func (s *spellings) has(name string) bool {
	form, ok := s.of(name)
	if !ok {
		return false
	}
	_, known := s.known[form]
	return known
}

// otherCase returns a name of ASCII with each letter in the other case.
func otherCase(name string) string {
	other := []byte(name)
	for i, c := range other {
		if letter := c | 0x20; letter >= 'a' && letter <= 'z' {
			other[i] ^= 0x20
		}
	}
	return string(other)
}
