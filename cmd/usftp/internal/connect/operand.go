// Package connect leads from operands to connections: the places that operands name, one login per
// host, and the exit code after failures.
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
	Typed  string // as typed
	Stream bool   // "-"
	Remote bool
	Target dial.Target // for a remote place
}

func ParsePlace(s string) (Place, error) {
	p := Place{Typed: s, Stream: s == "-"}
	switch {
	case s == "":
		return p, errors.New("empty operand")
	case p.Stream:
		return p, nil
	case strings.IndexByte(s, 0) >= 0:
		return p, fmt.Errorf("%q: a name cannot contain a NUL", s)
	}
	var err error
	p.Target, p.Remote, err = dial.ParseTarget(s)
	return p, err
}

// Path returns the path on the place's machine.
func (p Place) Path() string {
	switch {
	case !p.Remote:
		return p.Typed
	case p.Target.Path == "":
		return "." // the login directory
	}
	return p.Target.Path
}

// remembered returns the operand for the history, without the parts of an address other than user,
// host and path.
func (p Place) remembered() string {
	switch {
	case p.Stream:
		return p.Typed
	case p.Remote:
		name := p.Target.String()
		if name == p.Target.UserHost() { // it would be a local path
			name += ":"
		}
		return name
	}
	if path, err := filepath.Abs(p.Typed); err == nil {
		return path
	}
	return p.Typed
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

// checkPlaces refuses impossible copies before any work is done. through means that copies between
// hosts are intended; otherwise a local file whose name looks like a host's is more likely.
func checkPlaces(sources []Place, target Place, through bool) error {
	streams := 0
	for _, s := range sources {
		switch {
		case s.Remote && target.Remote && !through:
			for _, p := range []Place{s, target} {
				if _, err := os.Lstat(p.Typed); err == nil {
					return fmt.Errorf("%s means a file on host %s, but is also the name of a local file: write .%c%s for the local file, or add -3 for the host's",
						p.Typed, p.Target.UserHost(), filepath.Separator, p.Typed)
				}
			}
		case s.Stream && target.Stream:
			return errors.New("cannot copy - to -: use cat")
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

// Below returns the path of a name in a directory. Unlike [path.Join] it keeps "..": after a
// symbolic link that is not the directory before it in the path.
func Below(dir, name string) string {
	switch {
	case dir == "" || dir == ".":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name
}

// BelowHere works like Below for this machine, where on Windows a drive alone is its current
// directory: "C:a" is not "C:/a". It takes operands as typed, too, of which no host's is a drive.
func BelowHere(dir, name string) string {
	if len(dir) == len("C:") && dir == filepath.VolumeName(dir) { // a share is not like that
		return dir + name
	}
	return Below(dir, name)
}

// Below returns the path of a name in the place on its machine.
func (p Place) Below(name string) string {
	if p.Remote {
		return Below(p.Path(), name)
	}
	return BelowHere(p.Path(), name)
}

// Within returns a local directory's path so that it cannot mean a file: what is copied there does
// not get the directory's own name if that is gone by then.
func Within(dir string) string {
	if dir == filepath.VolumeName(dir) { // on Windows "C:" is not the same directory as "C:/"
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/"
}
