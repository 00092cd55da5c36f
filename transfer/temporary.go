package transfer

import (
	"crypto/rand"
	"encoding/hex"
	"hash/fnv"
	"strconv"
	"unicode/utf8"
)

// A temporary file lies beside its target and is named after it: ".NAME.usftp-RANDOM". The dot
// keeps it out of people's sight and of most programs' that collect what arrives in a directory;
// the name lets a later run find what an earlier one has left; the random part keeps two runs
// apart.
const (
	temporaryMark = ".usftp-"
	randomBytes   = 4

	// longestName is what file systems and servers take for one name, in bytes.
	longestName = 255
)

// temporaryName returns a new temporary name for a target whose last element is base.
func temporaryName(base string) string {
	var random [randomBytes]byte
	rand.Read(random[:])
	return temporaryPrefix(base) + hex.EncodeToString(random[:])
}

// temporaryPrefix returns what all temporary names for a target begin with. A name that would
// become too long is cut, between two characters, and told from others with the same beginning by a
// hash.
func temporaryPrefix(base string) string {
	const room = longestName - 1 - len(temporaryMark) - 2*randomBytes
	if len(base) > room {
		h := fnv.New64a()
		h.Write([]byte(base))
		sum := "~" + strconv.FormatUint(h.Sum64(), 36)
		cut := room - len(sum)
		for cut > 0 && !utf8.RuneStart(base[cut]) {
			cut--
		}
		if cut == 0 { // no text
			cut = room - len(sum)
		}
		base = base[:cut] + sum
	}
	return "." + base + temporaryMark
}
