// Package connect gets from operands to connections: what an operand names, one login for each host,
// and the exit code that follows from what fails.
package connect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/dial"
)

// A Place is one operand of cp: a local file, a file on a host, or a standard stream.
type Place struct {
	Typed  string // as it was given
	Stream bool   // "-"
	Remote bool
	Target dial.Target // of a remote place
}

func ParsePlace(s string) (Place, error) {
	p := Place{Typed: s, Stream: s == "-"}
	switch {
	case s == "":
		return p, errors.New("empty operand")
	case p.Stream:
		return p, nil
	case strings.IndexByte(s, 0) >= 0:
		return p, fmt.Errorf("%q: a name cannot hold a NUL", s)
	}
	var err error
	p.Target, p.Remote, err = dial.ParseTarget(s)
	return p, err
}

// Path is where the place is, on its machine.
func (p Place) Path() string {
	switch {
	case !p.Remote:
		return p.Typed
	case p.Target.Path == "":
		return "." // where one is logged in to
	}
	return p.Target.Path
}

// ParsePlaces reads the operands: one or more sources and the target.
func ParsePlaces(args []string, through bool) (sources []Place, target Place, err error) {
	if len(args) < 2 {
		return nil, Place{}, errors.New("missing operand: cp needs a source and a target")
	}
	var places []Place
	for _, arg := range args {
		p, err := ParsePlace(arg)
		if err != nil {
			return nil, Place{}, err
		}
		places = append(places, p)
	}
	sources, target = places[:len(places)-1], places[len(places)-1]
	return sources, target, checkPlaces(sources, target, through)
}

// checkPlaces refuses what cannot be carried out, before anything is. Through says that copies
// between hosts are meant: else a local file whose name looks like a host's is the likelier.
func checkPlaces(sources []Place, target Place, through bool) error {
	streams := 0
	for _, s := range sources {
		switch {
		case s.Remote && target.Remote && !through:
			for _, p := range []Place{s, target} {
				if _, err := os.Lstat(p.Typed); err == nil {
					return fmt.Errorf("%s means a file on the host %s; for the local file of this name write .%c%s, and for the host's give -3 too", p.Typed, p.Target.UserHost(), filepath.Separator, p.Typed)
				}
			}
		case s.Stream && target.Stream:
			return errors.New("- to - is a job for cat")
		case s.Stream:
			streams++
		}
	}
	switch {
	case streams > 1:
		return errors.New("standard input (-) can only be read once")
	case streams > 0 && len(sources) > 1:
		return errors.New("standard input (-) has no name: copy it alone, to a file")
	}
	return nil
}
