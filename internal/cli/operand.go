package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/dial"
)

// A place is one operand of cp: a local file, a file on a host, or a standard stream.
type place struct {
	typed  string // as it was given
	stream bool   // "-"
	remote bool
	target dial.Target // of a remote place
}

func parsePlace(s string) (place, error) {
	p := place{typed: s, stream: s == "-"}
	switch {
	case s == "":
		return p, errors.New("an operand is empty")
	case p.stream:
		return p, nil
	case strings.IndexByte(s, 0) >= 0:
		return p, fmt.Errorf("%q: a name cannot hold a NUL", s)
	}
	var err error
	p.target, p.remote, err = dial.ParseTarget(s)
	return p, err
}

// path is where the place is, on its machine.
func (p place) path() string {
	switch {
	case !p.remote:
		return p.typed
	case p.target.Path == "":
		return "." // where one is logged in to
	}
	return p.target.Path
}

// parsePlaces reads the operands: one or more sources and the target.
func parsePlaces(args []string, through bool) (sources []place, target place, err error) {
	if len(args) < 2 {
		return nil, place{}, errors.New("a source and a target are needed")
	}
	var places []place
	for _, arg := range args {
		p, err := parsePlace(arg)
		if err != nil {
			return nil, place{}, err
		}
		places = append(places, p)
	}
	sources, target = places[:len(places)-1], places[len(places)-1]
	return sources, target, checkPlaces(sources, target, through)
}

// checkPlaces refuses what cannot be carried out, before anything is. Through says that copies
// between hosts are meant: else a local file whose name looks like a host's is the likelier.
func checkPlaces(sources []place, target place, through bool) error {
	streams := 0
	for _, s := range sources {
		switch {
		case s.remote && target.remote && !through:
			for _, p := range []place{s, target} {
				if _, err := os.Lstat(p.typed); err == nil {
					return fmt.Errorf("%s means a file on the host %s; for the local file of this name write .%c%s, and for the host's give -3 too", p.typed, p.target.UserHost(), filepath.Separator, p.typed)
				}
			}
		case s.stream && target.stream:
			return errors.New("standard input to standard output (- to -) is what cat copies")
		case s.stream:
			streams++
		}
	}
	switch {
	case streams > 1:
		return errors.New("standard input (-) can be read only once")
	case streams > 0 && len(sources) > 1:
		return errors.New("standard input (-) has no name, and can only be copied to a file, alone")
	}
	return nil
}
