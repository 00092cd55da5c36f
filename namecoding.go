package usftp

import (
	"errors"
	"strings"

	"github.com/usftp/usftp/wire"
)

// A NameCoding converts names between the program and a server that has them in another character
// set: SFTP's version 3 does not specify any (draft-ietf-secsh-filexfer-02 has bytes). Names are
// single elements of paths.
type NameCoding interface {
	// Encode returns the server's form of a name, Decode the reverse.
	Encode(name string) (string, error)
	Decode(name string) (string, error)
}

// ErrNameCoding reports that a name cannot be converted so that it comes back as the same name.
// Such a name of ours is not sent. Such a name of the server's is listed with a NUL in front, which
// no other name has, and every request about it fails with this error.
var ErrNameCoding = errors.New("the name cannot be converted to the other character set and back")

// WithNameCoding converts all names and paths, except those of [Raw.Readdir]. A converted name
// stands for the same file: a conversion that is not one to one is an error for that file, as is a
// conversion that results in a separator, NUL, "." or "..".
func WithNameCoding(c NameCoding) ClientOption {
	return func(o *options) { o.names = c }
}

// notConverted is in front of a listed name that could not be decoded.
const notConverted = "\x00"

// encodePath returns the server's form of a path.
func (s *session) encodePath(name string) (string, error) {
	c := s.options.names
	if c == nil {
		return name, nil
	}
	return eachElement(name, func(element string) (string, error) {
		if strings.HasPrefix(element, notConverted) {
			return "", ErrNameCoding
		}
		return convert(element, c.Encode, c.Decode)
	})
}

// decodePath converts a path from the server's form.
func (s *session) decodePath(name string) (string, error) {
	c := s.options.names
	if c == nil {
		return name, nil
	}
	return eachElement(name, func(element string) (string, error) {
		return convert(element, c.Decode, c.Encode)
	})
}

// decodeListed converts a listed name from the server's form.
func (s *session) decodeListed(name string) string {
	decoded, err := convert(name, s.options.names.Decode, s.options.names.Encode)
	if err != nil {
		return notConverted + name
	}
	return decoded
}

// eachElement converts the elements of a path.
func eachElement(name string, convert func(string) (string, error)) (string, error) {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		if element == "" || element == "." || element == ".." {
			continue
		}
		converted, err := convert(element)
		if err != nil {
			return "", err
		}
		elements[i] = converted
	}
	return strings.Join(elements, "/"), nil
}

// convert converts a name, and checks that the result is a name and converts back to the original.
func convert(name string, there, back func(string) (string, error)) (string, error) {
	converted, err := there(name)
	if err != nil || converted == "" || converted == "." || converted == ".." ||
		strings.ContainsAny(converted, "/\x00") {
		return "", ErrNameCoding
	}
	if again, err := back(converted); err != nil || again != name {
		return "", ErrNameCoding
	}
	return converted, nil
}

// encoded returns a message with its paths in the server's form.
func (s *session) encoded(message appender) (appender, error) {
	var err error
	path := func(name *string) {
		if err == nil {
			*name, err = s.encodePath(*name)
		}
	}
	switch m := message.(type) {
	case wire.Open:
		path(&m.Path)
		message = m
	case wire.PathRequest:
		path(&m.Path)
		message = m
	case wire.PathAttrs:
		path(&m.Path)
		message = m
	case wire.Lsetstat:
		path(&m.Path)
		message = m
	case wire.ExtendedPath: // home-directory's is a user's name, which has no other rules
		path(&m.Path)
		message = m
	case wire.Rename:
		path(&m.OldPath)
		path(&m.NewPath)
		message = m
	case wire.PosixRename:
		path(&m.OldPath)
		path(&m.NewPath)
		message = m
	case wire.Hardlink:
		path(&m.OldPath)
		path(&m.NewPath)
		message = m
	case wire.Symlink:
		path(&m.First)
		path(&m.Second)
		message = m
	case wire.CheckFile:
		if m.Name == wire.ExtCheckFileName {
			name := string(m.Target)
			path(&name)
			m.Target, message = []byte(name), m
		}
	}
	return message, err
}
