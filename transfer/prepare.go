package transfer

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// treeSource is where a tree is read.
type treeSource interface {
	join(dir, name string) string
	look(name string) (facts, error) // following links
	list(d *directory, yield func(*item, error) bool) error
	readLink(name string) (string, error)
	loops(d *directory) string // why a linked directory is not entered, "" where it is
}

// treeTarget is where a tree is written.
type treeTarget interface {
	join(dir, name string) string
	check(d *directory, name string) error // of an entry
	makeDir(d *directory) (fresh bool, err error)
	finishDir(d *directory) error
	leave(d *directory) // nothing more is written in it
	makeLink(i *item, to string) error
	finishLink(i *item, set usftp.NewAttrs) error
	close()
}

// prepare looks at the source and the target. Root stays nil where the source is a file.
func (t *treeRun) prepare() (err error) {
	if t.filter, err = newFilter(t.TreeOptions.Include, t.TreeOptions.Exclude); err != nil {
		return err
	}
	if err := (&Job{Direction: t.Direction, Host: t.Host,
		From: t.From}).checkClients(); err != nil {
		return err
	}
	if err := verifiable(t.line.client(), &t.Options); err != nil {
		return err
	}
	began := time.Now()
	t.source = localSource{}
	switch t.Direction {
	case Download:
		t.source = remoteSource{t, t.line}
	case Relay:
		t.source = remoteSource{t, t.from}
	case Local:
		t.source = hereSource{tree: t}
	case Checking:
		if !t.here() {
			t.source = remoteSource{t, t.line}
		}
	}
	found, err := t.source.look(t.Source)
	if err != nil {
		return err
	}
	trip := time.Since(began)
	if t.Direction == Checking {
		return t.prepareCheck(found, trip)
	}
	if !found.mode.IsDir() {
		return nil
	}
	base, err := t.base()
	if err != nil {
		return err
	}
	forget := func() {}
	if base != "." && t.goesOn() {
		base, t.ours = ".", true
	} else if base != "." {
		t.noteBegun()
		forget = t.forgetBegun
	}
	root := &directory{tree: t, source: t.Source, rel: ".", facts: found}
	root.pending.Store(1)
	t.root = root
	defer func() {
		if err != nil {
			t.root = nil
		}
	}()
	if t.Direction == Local {
		if err := t.checkHere(base, found.info); err != nil {
			return err
		}
	}
	lies := make(chan string, 1)
	go func() { lies <- t.liesIn() }() // along with what else is asked of the hosts
	if !t.Direction.toHost() {
		t.target, root.target, err = openLocal(t, base)
	} else {
		began = time.Now()
		t.target, root.target, err = openRemote(t, base)
		if t.Direction != Relay { // whose files take both ways
			trip = 0
		}
		trip += time.Since(began)
	}
	if err == nil {
		at := <-lies
		if lost(t.line.client()) || t.from != nil && lost(t.from.client()) {
			at = t.liesIn()
		}
		if err = t.notInside(at); err != nil {
			if made, ok := t.target.(*localTree); ok && made.fresh {
				os.Remove(t.Target)
			}
			t.target.close()
		}
	}
	if err != nil {
		forget()
		return err
	}
	if root.target != t.Target {
		forget()
		t.below = base
	}
	host := t.line.current()
	return t.measure(max(trip, host.askedAhead()))
}

// These two keep a nil pointer from becoming an interface that is not nil.
func openLocal(t *treeRun, base string) (treeTarget, string, error) {
	l, target, err := openLocalTree(t, base)
	if err != nil {
		return nil, target, err
	}
	return l, target, nil
}

func openRemote(t *treeRun, base string) (treeTarget, string, error) {
	r, target, err := openRemoteTree(t, base)
	if err != nil {
		return nil, target, err
	}
	return r, target, nil
}

const (
	// smallest is the largest file that travels in one piece, where the packets allow it.
	largestSmall = 256 << 10

	// mostStepwise is how many files are under way at once that travel as large ones do, each with
	// what watches over it.
	mostStepwise = 256

	// smallMemory bounds what the small files under way hold of this machine's memory: contents
	// that are asked for, or not yet acknowledged. It is twice what the window of their channel
	// carries in a round trip.
	smallMemory = 4 << 20
)

// measure decides how many files are in flight, and which of them are small.
func (t *treeRun) measure(trip time.Duration) error {
	if t.here() {
		t.measureHere()
		return nil
	}
	var files, rest int64
	var read, write int
	ask := func(client *usftp.Client, _ bool) error {
		limits, err := client.Limits()
		if err == nil {
			read, write, err = private.OfClient(client).DataSizes()
		}
		_, told := client.HasExtension("limits@openssh.com")
		files = mostHandles(limits, told)
		rest = walkers
		if told && limits.MaxOpenHandles > 0 {
			rest = max(1, int64(min(limits.MaxOpenHandles, 1<<20))-files)
		}
		return err
	}
	if err := t.over(t.Source, ask); err != nil {
		return err
	}
	t.trip = trip
	t.small = min(write, largestSmall)
	switch {
	case t.Direction == Download, t.Direction == Checking:
		t.small = min(read, largestSmall)
	case t.from == t.line: // each file is open twice
		files = max(1, files/2)
		t.small = min(t.small, read)
	case t.Direction == Relay:
		most := files
		if err := t.source.(remoteSource).over(t.Source, ask); err != nil {
			return err
		}
		files = min(files, most)
		t.small = min(t.small, read)
	}
	inFlight := filesInFlight(trip)
	// there is no one piece with an fsync in it: they take as many steps as large ones, and many
	// run at a time
	if t.Options.Sync && t.Direction.toHost() {
		t.stepwise, t.small = t.small, -1
		inFlight = min(inFlight, mostStepwise)
	}
	t.allow(files, inFlight)
	if t.Direction.fromHost() { // each listing has a directory open
		t.plan.walkers = int(min(rest, walkers))
	}
	return nil
}

// allow sets what files under way may take: so many handles, and so many of them at once unless the
// tree's options say how many.
func (t *treeRun) allow(handles int64, files int) {
	t.memory = newAllowance(smallMemory)
	t.handles = newAllowance(handles)
	if t.TreeOptions.MaxFiles > 0 {
		files = t.TreeOptions.MaxFiles
	}
	t.plan = newPlan(t, files)
}

// base returns the name that the copy gets where the target is a directory; "." where what lies in
// the source is meant.
func (t *treeRun) base() (string, error) {
	if t.Direction.fromHost() {
		name := strings.TrimRight(t.Source, "/")
		base := path.Base(name)
		if name == "" || base == "." || base == ".." {
			return ".", nil
		}
		if t.Direction == Relay {
			return base, foreignName(base)
		}
		return localName(base)
	}
	name := t.Source
	for len(name) > 1 && os.IsPathSeparator(name[len(name)-1]) {
		name = name[:len(name)-1]
	}
	switch base := filepath.Base(name); base {
	case ".", "..", string(filepath.Separator):
		return ".", nil
	default:
		return base, nil
	}
}

// filter decides which entries are copied.
type filter struct{ include, exclude []pattern }

type pattern struct {
	elements []string
	whole    bool // matched with the path, not with its last element
	dirs     bool // matches directories only
}

func newFilter(include, exclude []string) (f filter, err error) {
	if f.include, err = newPatterns(include); err == nil {
		f.exclude, err = newPatterns(exclude)
	}
	return f, err
}

func newPatterns(texts []string) (all []pattern, err error) {
	for _, text := range texts {
		var p pattern
		trimmed := strings.TrimRight(text, "/")
		p.dirs = trimmed != text
		p.whole = strings.Contains(trimmed, "/")
		p.elements = strings.Split(strings.TrimLeft(trimmed, "/"), "/")
		for _, element := range p.elements {
			switch _, err := path.Match(element, ""); {
			case err != nil || element == "":
				return nil, fmt.Errorf("%q is no pattern", text)
			case element == "." || element == "..": // which no path has: what was to be left out would be copied
				return nil, fmt.Errorf("the pattern %q matches nothing: paths begin in the source, without . and .. in them", text)
			}
		}
		all = append(all, p)
	}
	return all, nil
}

// wants tells whether an entry is copied. A directory that no pattern of Include matches is looked
// into all the same.
func (f *filter) wants(rel string, dir bool) bool {
	if matchAny(f.exclude, rel, dir) {
		return false
	}
	return dir || len(f.include) == 0 || matchAny(f.include, rel, dir)
}

func matchAny(patterns []pattern, rel string, dir bool) bool {
	for _, p := range patterns {
		if p.dirs && !dir {
			continue
		}
		name := strings.Split(rel, "/")
		if !p.whole {
			name = name[len(name)-1:]
		}
		if matchElements(p.elements, name) {
			return true
		}
	}
	return false
}

// matchElements goes back to the last "**" only: what stood before it has matched as little as it
// could, and would leave no more by matching otherwise. So a deep tree costs a pattern of many no
// more than its elements times the pattern's.
func matchElements(pattern, name []string) bool {
	p, n := 0, 0
	star, from := -1, 0 // the last "**", and what of name lies behind what it has taken
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			star, from = p, n
			p++
			continue
		case p < len(pattern) && matchElement(pattern[p], name[n]):
			p++
			n++
			continue
		case star < 0:
			return false
		}
		from++
		p, n = star+1, from
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

func matchElement(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}
