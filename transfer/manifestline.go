package transfer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
)

// The lines of sha256sum and b3sum: the hash in hexadecimal, two spaces (or a space and a star),
// the name, a newline. In a name with a backslash, a newline or a carriage return these are
// escaped, and a backslash in front of the line says so. b3sum knows no escape for carriage
// returns, and leaves them as they are.

// appendLine appends the line of a file.
func appendLine(b []byte, h Hash, name string) []byte {
	if name == "-" { // would stand for standard input
		name = "./-"
	}
	special := "\\\n\r"
	if h.Algorithm == BLAKE3 {
		special = "\\\n"
	}
	escaped := strings.ContainsAny(name, special)
	if escaped {
		b = append(b, '\\')
	}
	b = hex.AppendEncode(b, h.Sum)
	b = append(b, "  "...)
	for i := range len(name) {
		c := name[i]
		switch {
		case !escaped || strings.IndexByte(special, c) < 0:
			b = append(b, c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		default:
			b = append(b, `\\`...)
		}
	}
	return append(b, '\n')
}

// What is wrong with a line.
var (
	errNoLine   = errors.New("it is not a hash and a name")
	errBadName  = errors.New("its name leads out of the directory, or is none")
	errOtherSum = errors.New("it is by another hash")
)

// parseLine takes a line apart, without its newline. Lines with the algorithm's name (sha256sum
// --tag) are taken too. The name is clean, and leads nowhere but below where the list belongs.
func parseLine(line []byte, algorithm Algorithm) (sum []byte, name string, err error) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	line, escaped := bytes.CutPrefix(line, []byte(`\`))
	digits, rest, tagged := cutTag(line)
	if !tagged {
		if len(line) < 2*hashSize+3 || line[2*hashSize] != ' ' ||
			line[2*hashSize+1] != ' ' && line[2*hashSize+1] != '*' {
			return nil, "", errNoLine
		}
		digits, rest = line[:2*hashSize], line[2*hashSize+2:]
	} else if tag := line[:bytes.IndexByte(line, ' ')]; !strings.EqualFold(string(tag),
		string(algorithm)) {
		return nil, "", errOtherSum
	}
	sum = make([]byte, hashSize)
	if n, err := hex.Decode(sum, digits); err != nil || n != hashSize {
		return nil, "", errNoLine
	}
	name = string(rest)
	if escaped {
		if name, err = unescape(name); err != nil {
			return nil, "", err
		}
	}
	name, err = cleanName(name)
	return sum, name, err
}

// cutTag takes "ALGORITHM (name) = hash" apart.
func cutTag(line []byte) (digits, name []byte, ok bool) {
	open := bytes.Index(line, []byte(" ("))
	end := len(line) - 2*hashSize
	if open < 1 || bytes.IndexByte(line[:open], ' ') >= 0 || end < open+6 ||
		string(line[end-4:end]) != ") = " {
		return nil, nil, false
	}
	return line[end:], line[open+2 : end-4], true
}

func unescape(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '\\' {
			i++
			switch {
			case i < len(name) && name[i] == 'n':
				c = '\n'
			case i < len(name) && name[i] == 'r':
				c = '\r'
			case i < len(name) && name[i] == '\\':
			default:
				return "", errNoLine
			}
		}
		b.WriteByte(c)
	}
	return b.String(), nil
}

// cleanName refuses names that lead elsewhere: a list is often a stranger's word.
func cleanName(name string) (string, error) {
	if name == "" || name[0] == '/' || strings.IndexByte(name, 0) >= 0 {
		return "", errBadName
	}
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return "", errBadName
		}
	}
	if name = path.Clean(name); name == "." {
		return "", errBadName
	}
	return name, nil
}

// A ListError says which line of a list of hashes cannot be used. errors.Is(err, ErrList) holds.
type ListError struct {
	File string
	Line int
	Err  error
}

func (e *ListError) Error() string { return fmt.Sprintf("%s, line %d: %v", e.File, e.Line, e.Err) }

// Unwrap returns ErrList and the reason.
func (e *ListError) Unwrap() []error { return []error{ErrList, e.Err} }
