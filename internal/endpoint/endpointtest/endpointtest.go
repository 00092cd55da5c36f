//go:build unix

// Package endpointtest has the cases that every endpoint must pass: the answers of [endpoint.Place]
// and of the [endpoint.Root] below one of its directories, and the resulting state of the disk.
package endpointtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/testenv"
)

// A Fixture is a Place with an empty directory for one case.
type Fixture struct {
	Place  endpoint.Place
	Opener endpoint.Opener // of the same place
	Dir    string          // the directory's name in Place
	Disk   Disk            // the same directory, as another program sees it
	Write  Write           // opens a file of the same place
	End    func()          // ends the run's context; nil if the Place has none

	// Consequences of the protocol, and known limits of the host.
	Host      bool // it is reached by SFTP, which reports neither inodes nor other names
	Textual   bool // RealPath only cleans the text
	NoReal    bool // RealPath is refused
	Raw       bool // the server reports links reliably
	Whole     bool // a file appears when it is complete
	NoTimes   bool // neither times nor permissions can be set
	NoHard    bool // there are no hard links
	NoLinkSet bool // attributes of links cannot be set
}

// Write opens a path for writing. flag is a flag of os.OpenFile.
type Write func(path string, flag int) (endpoint.Writer, error)

// Run runs all cases, each over a fixture of its own.
func Run(t *testing.T, fixture func(t *testing.T) *Fixture) {
	for name, run := range placeCases {
		t.Run(name, func(t *testing.T) { run(&scene{T: t, Fixture: fixture(t)}) })
	}
	for name, run := range fsCases {
		t.Run("place/"+name, func(t *testing.T) {
			s := &scene{T: t, Fixture: fixture(t)}
			run(s, s.Place, func(name string) string { return s.Place.Join(s.Dir, name) })
		})
		t.Run("root/"+name, func(t *testing.T) {
			s := &scene{T: t, Fixture: fixture(t)}
			run(s, s.below(), func(name string) string { return name })
		})
	}
	for name, run := range readCases {
		t.Run("read/"+name, func(t *testing.T) {
			s := &scene{T: t, Fixture: fixture(t)}
			run(s, s.Opener)
		})
	}
	for name, run := range writeCases {
		t.Run("write/"+name, func(t *testing.T) { run(&scene{T: t, Fixture: fixture(t)}) })
	}
	for name, run := range rootCases {
		t.Run("root/"+name, func(t *testing.T) {
			s := &scene{T: t, Fixture: fixture(t)}
			run(s, s.below())
		})
	}
}

// A scene is a running case.
type scene struct {
	*testing.T
	*Fixture
}

// below returns the Root of the fixture's directory.
func (s *scene) below() endpoint.Root {
	s.Helper()
	root, err := s.Place.Below(s.Dir)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(root.Close)
	return root
}

// is checks the state of names as another program sees it: pairs of a name and its Disk.State.
func (s *scene) is(pairs ...string) {
	s.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := s.Disk.State(pairs[i]); got != pairs[i+1] {
			s.Errorf("%q is %q on the disk, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// ok fails the case if there is an error.
func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

// refused checks that an error is one of the given errors, or any error if none is given.
func (s *scene) refused(what string, err error, is ...error) {
	s.Helper()
	found := err != nil && len(is) == 0
	for _, target := range is {
		found = found || errors.Is(err, target)
	}
	if !found {
		s.Errorf("%s: %v (%T), want one of %q", what, err, err, is)
	}
}

// inTime makes a call that must not wait for another program.
func (s *scene) inTime(do func()) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(testenv.Patience(s.T)):
		s.Fatal("it waits for another program")
	}
}

// put makes an entry of each kind, and targets for the links.
func (s *scene) put() {
	s.Disk.Mkdir("dir")
	s.Disk.Write("dir/inside", "inside")
	s.Disk.Write("file", "data")
	s.Disk.Pipe("pipe")
	s.Disk.Symlink("file", "link")
	s.Disk.Symlink("dir", "dirlink")
	s.Disk.Symlink("nowhere", "dangling")
}

// kinds are the names that put makes, with their states.
var kinds = map[string]string{"dir": "dir", "file": "= data", "pipe": "pipe", "link": "-> file",
	"dirlink": "-> dir", "dangling": "-> nowhere"}

// unchanged checks that everything is as put has made it.
func (s *scene) unchanged() {
	s.Helper()
	for name, state := range kinds {
		s.is(name, state)
	}
	s.is("dir/inside", "= inside", "nowhere", "")
}

// numbered returns similar names.
func numbered(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	return names
}
