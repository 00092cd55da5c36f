package verb

import (
	"context"
	"errors"
	"io/fs"
	"slices"

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
	for _, name := range names {
		if j.over() {
			break
		}
		made, err := makeDirectory(j, name, o.Parents)
		if err == nil && mode != nil && len(made) > 0 {
			err = j.client.Chmod(j.at(name), wire.FileMode(mode.apply(0o777, true)))
		}
		for _, name := range made {
			j.done("made", name, "", "mkdir: created directory "+j.quoted(name))
		}
		if err != nil {
			j.fail("make directory", name, whyMissing(j, name, err))
		}
	}
	return j.end()
}

// makeDirectory makes a directory, with missing parents if parents is set. It returns the
// directories made, even if it fails.
func makeDirectory(j *job, name string, parents bool) (made []string, err error) {
	if !parents {
		if err := j.client.Mkdir(j.at(name)); err != nil {
			return nil, err
		}
		return []string{name}, nil
	}
	above := prefixes(name)
	_, missing := present(j, above)
	key := func(dir string) string { return name + "\x00" + dir }
	for _, dir := range missing {
		j.earlier.meet(key(dir))
	}
	if err = j.client.MkdirAll(j.at(name)); err != nil {
		made, _ = present(j, missing)
		return made, err
	}
	// What an earlier run did not find, it has made: the answer was lost, and the mode is not set.
	return slices.DeleteFunc(above, func(dir string) bool {
		return !slices.Contains(missing, dir) && !(j.Again && j.earlier.hasMet(key(dir)))
	}), nil
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
