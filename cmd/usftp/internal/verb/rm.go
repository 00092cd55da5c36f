package verb

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp/internal/private"
)

// RemoveOptions are the options of rm.
type RemoveOptions struct {
	Recursive   bool // -r
	Force       bool // -f: ignore missing files, and never ask
	Interactive bool // -i: ask before each removal
	Directories bool // -d: also empty directories
}

// Remove implements rm. It follows no symbolic link, and refuses "/", "", "." and "..". If a link
// replaces a directory while it runs, it does not follow that link on a server with beneath@usftp,
// and on others only if the link appears after the directory was listed and checked.
func Remove(ctx context.Context, env *Env, o RemoveOptions, names []string) error {
	r := newRemover(env.begin(ctx))
	r.o = o
	r.remove(names)
	return r.end()
}

// remover removes files and trees. A directory is removed after everything in it: on a server that
// works in order the requests are all sent at once, on others the removal waits for the answers.
type remover struct {
	*job
	o       RemoveOptions
	inOrder bool
	ops     pipeline
}

func newRemover(j *job) *remover {
	return &remover{job: j, inOrder: private.OfClient(j.client).WorksInOrder()}
}

// removable returns why an operand of rm is refused. It must end in a name: "/" and paths that end
// in "." or ".." would remove more than is apparent.
func removable(name string) error {
	trimmed := strings.TrimRight(name, "/")
	base := path.Base(trimmed)
	switch {
	case name == "":
		return errors.New("the path is empty")
	case trimmed == "":
		return errors.New("is the root directory")
	case base == "." || base == "..":
		return errors.New(`"." and ".." are refused`)
	}
	return nil
}

func (r *remover) remove(names []string) {
	var good []string
	plain := make(map[string]bool) // without a slash at the end; others must be directories
	for _, name := range names {
		if err := removable(name); err != nil {
			r.fail("remove", name, err)
			continue
		}
		trimmed := strings.TrimRight(name, "/") // the slash would follow a link
		if trimmed == name {
			plain[name] = true
		}
		good = append(good, trimmed)
	}
	found := r.lookup(good, followNever, func(name string, err error) {
		if !r.mayBeGone(name) || !errors.Is(err, fs.ErrNotExist) {
			r.fail("remove", name, err)
		}
	})
	if r.over() {
		return
	}
	found = slices.DeleteFunc(found, func(e *entry) bool {
		if plain[e.name] || e.isDir() || !e.stat.HasType() {
			return false
		}
		// As in GNU's rm: with -f, a file with a slash after its name counts as missing, which is not a
		// failure. A link to a directory does not, as what it leads to stays.
		if !r.o.Force || r.leadsToDirectory(e) {
			r.fail("remove", e.name+"/", errNotDirectory)
		}
		return true
	})
	w := &walk{job: r.job, each: r.each, leave: r.leave, changes: true,
		descend: func(*dir) bool { return r.o.Recursive }}
	w.run(found)
	r.ops.drain()
}

// leadsToDirectory reports whether an operand is a symbolic link to a directory.
func (r *remover) leadsToDirectory(e *entry) bool {
	if e.isLink() {
		info, err := r.client.Stat(r.at(e.name))
		return err == nil && info.IsDir()
	}
	return false
}

// mayBeGone reports whether an operand may be missing without a failure. If an earlier run found
// it, that run removed it.
func (r *remover) mayBeGone(name string) bool {
	return r.o.Force || r.Again && r.earlier.hasMet(name)
}

// ask asks the user before a removal; it returns true without -i.
func (r *remover) ask(question, name string) bool {
	if !r.o.Interactive || r.o.Force {
		return true
	}
	r.ops.drain() // complete the confirmed removals before asking the next question
	return r.confirm(question, name)
}

// each removes a file, or decides whether to enter a directory.
func (r *remover) each(in *dir, e *entry, d *dir) error {
	name := pathIn(in, e)
	if d != nil {
		return r.enterDirectory(d, name)
	}
	if !r.ask("remove", name) {
		r.keep(in)
		return r.err
	}
	r.start(in, name)
	return nil
}

// pathIn returns the path of a directory's entry, or of an operand.
func pathIn(in *dir, e *entry) string {
	if in == nil {
		return e.name
	}
	return below(in.path, e.name)
}

func (r *remover) enterDirectory(d *dir, name string) error {
	switch {
	case !r.o.Recursive && !r.o.Directories:
		r.fail("remove", name, errors.New("is a directory (-r removes directories)"))
		d.failed = true
	case r.o.Recursive && !r.ask("descend into directory", name):
		d.failed = true
	default:
		return nil
	}
	r.keep(d.parent)
	return fs.SkipDir
}

// keep records that an entry of a directory stays, and so the directory does.
func (r *remover) keep(in *dir) {
	if in != nil {
		in.failed = true
	}
}

// leave removes a directory after its contents.
func (r *remover) leave(d *dir) error {
	if r.o.Interactive {
		r.ops.drain()
	}
	if d.failed || !r.ask("remove directory", d.path) {
		r.keep(d.parent)
		return r.err
	}
	if d.pending == 0 || r.inOrder {
		r.startDirectory(d)
		return nil
	}
	d.done = func() { r.startDirectory(d) }
	if d.parent != nil {
		d.parent.pending++ // until d itself has been removed
	}
	return nil
}

// start removes a file and records the outcome for its directory.
func (r *remover) start(in *dir, name string) {
	if in != nil {
		in.pending++
	}
	pending := r.clientFor(in, nil).Async().Remove(r.at(name))
	r.ops.add(func() {
		_, err := pending.Wait()
		r.removed(in, name, "removed ", err)
		r.finished(in)
	})
}

// startDirectory removes a directory, and its parent if that waits for no other entry.
func (r *remover) startDirectory(d *dir) {
	waited := d.done != nil
	d.done = nil
	if d.parent != nil && !waited {
		d.parent.pending++
	}
	pending := d.client.Async().RemoveDirectory(r.at(d.path))
	r.ops.add(func() {
		_, err := pending.Wait()
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist) &&
			(d.Err == nil || errors.Is(d.Err, fs.ErrNotExist)): // not so if it is a link now
		case d.failed: // the entries left in it have been reported
			r.keep(d.parent)
			r.finished(d.parent)
			return
		case d.Err != nil:
			err = d.Err // why no entry was removed
		case d.Several && r.o.Recursive && (r.o.Force || !r.o.Interactive):
			// Some servers skip names if others are removed while they list. What find leaves, and what
			// the user was not asked about, stays.
			err = d.client.RemoveAll(r.at(d.path))
		}
		r.removed(d.parent, d.path, "removed directory ", err)
		r.finished(d.parent)
	})
}

// finished records that an entry of a directory is done.
func (r *remover) finished(in *dir) {
	if in == nil {
		return
	}
	if in.pending--; in.pending == 0 && in.done != nil {
		in.done()
	}
}

// removed reports the outcome for a file. done is the text of -v before its name.
func (r *remover) removed(in *dir, name, done string, err error) {
	if err != nil && errors.Is(err, fs.ErrNotExist) && (in != nil || r.mayBeGone(name)) {
		return // another program has removed it
	}
	if err != nil {
		r.keep(in)
		r.fail("remove", name, whyNotRemoved(r.job, name, err))
		return
	}
	r.done("removed", name, "", done+r.quoted(name))
}
