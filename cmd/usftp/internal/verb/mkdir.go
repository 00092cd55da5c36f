package verb

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// MakeDirectoryOptions are the options of mkdir.
type MakeDirectoryOptions struct {
	Parents bool   // -p: make missing parents too, and accept existing directories
	Mode    string // -m: octal or symbolic; "" leaves it to the server
}

// MakeDirectory implements mkdir.
func MakeDirectory(ctx context.Context, env *Env, o MakeDirectoryOptions, names []string) error {
	j := env.begin(ctx)
	var mode *modeChange
	if o.Mode != "" {
		m, err := parseMode(o.Mode)
		if err != nil {
			return usage("-m %s: %w", o.Mode, err)
		}
		mode = m
	}
	if o.Parents {
		makeChains(j, names, mode)
		return j.end()
	}
	var ops, reports pipeline
	for i, name := range names {
		if j.over() {
			break
		}
		async := j.client.Async()
		pending := async.Mkdir(j.at(name))
		ops.add(func() {
			_, err := pending.Wait()
			if err != nil && early(j, i) { // an earlier operand may be its parent
				err = j.client.Mkdir(j.at(name))
			}
			made := directories{err: err}
			var changed *usftp.Pending[struct{}]
			if err == nil {
				made.names = []string{name}
				if mode != nil {
					changed = async.Chmod(j.at(name), modeOfNew(mode))
				}
			}
			reports.add(func() {
				if changed != nil {
					_, made.err = changed.Wait()
				}
				made.report(j, name)
			})
		})
	}
	ops.drain()
	reports.drain()
	return j.end()
}

// directories are those made for an operand, and why there are no more, or why their mode is not
// set.
type directories struct {
	names []string
	err   error
}

func (d directories) failure() error { return nil } // none opens a file
func (d directories) close() bool    { return false }

func (d directories) report(j *job, name string) {
	for _, made := range d.names {
		j.done("made", made, "", "mkdir: created directory "+j.quoted(made))
	}
	if d.err != nil {
		j.fail("make directory", name, whyMissing(j, name, d.err))
	}
}

func modeOfNew(mode *modeChange) fs.FileMode { return wire.FileMode(mode.apply(0o777, true)) }

// A chain is an operand of mkdir -p, and the missing directories that are made for it.
type chain struct {
	name    string
	missing []string
}

// makeChains makes directories with their missing parents. A missing directory that several
// operands share is counted as the first one's.
func makeChains(j *job, names []string, mode *modeChange) {
	inTurn(j, chainsOf(j, names), func(c chain) (made directories) {
		if private.OfClient(j.client).WorksInOrder() { // then they are there for what follows at once
			for _, dir := range c.missing[:max(0, len(c.missing)-1)] {
				j.client.Async().Mkdir(j.at(dir))
			}
		}
		if made.err = j.client.MkdirAll(j.at(c.name)); made.err != nil {
			made.names, _ = present(j, c.missing)
			return made
		}
		if made.names = c.missing; mode != nil && len(c.missing) > 0 {
			made.err = j.client.Chmod(j.at(c.name), modeOfNew(mode))
		}
		return made
	}, func(c chain, made directories) { made.report(j, c.name) })
}

// chainsOf finds out what is missing, which takes one round trip. What an earlier run did not find,
// it has made: the answer was lost, and the mode is not set.
func chainsOf(j *job, names []string) (chains []chain) {
	var all []string
	for _, name := range names {
		all = append(all, prefixes(name)...)
	}
	slices.Sort(all)
	_, missing := present(j, slices.Compact(all))
	for _, dir := range missing {
		j.earlier.meet(dir)
	}
	taken := make(map[string]bool)
	for _, name := range names {
		c := chain{name: name}
		for _, dir := range prefixes(name) {
			_, found := slices.BinarySearch(missing, dir)
			if key := path.Clean(dir); !taken[key] && (found || j.Again && j.earlier.hasMet(dir)) {
				taken[key] = true
				c.missing = append(c.missing, dir)
			}
		}
		chains = append(chains, c)
	}
	return chains
}

// present returns the existing and the missing names, after one round trip. Names about which the
// server cannot be asked, as when the connection is lost, are neither.
func present(j *job, names []string) (there, missing []string) {
	var ops pipeline
	for _, name := range names {
		pending := j.client.Async().Stat(j.at(name))
		ops.add(func() {
			switch _, err := pending.Wait(); {
			case err == nil:
				there = append(there, name)
			case errors.Is(err, fs.ErrNotExist):
				missing = append(missing, name)
			}
		})
	}
	ops.drain()
	return there, missing
}
