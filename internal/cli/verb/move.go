package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// MoveOptions are the options of mv.
type MoveOptions struct {
	NoClobber   bool // -n: keep existing files
	Interactive bool // -i: ask before replacing
	NoDirectory bool // -T: the target is the new name, even if it is a directory
}

// Move is mv on one host: the last name is the new name, or the directory that the others move to.
func Move(ctx context.Context, env *Env, o MoveOptions, names []string) error {
	m := &mover{job: env.begin(ctx, "mv"), o: o}
	m.move(names)
	return m.end()
}

type mover struct {
	*job
	o MoveOptions
}

// into returns the target for each source: inside the last name if that is a directory, otherwise
// that name. ok is false if several sources go to something that is not a directory, which has been
// reported.
func (j *job) into(names []string, noDirectory bool) (sources, targets []string, ok bool) {
	sources, last := names[:len(names)-1], names[len(names)-1]
	isDir := false
	if !noDirectory {
		info, err := j.client.Stat(j.at(last))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(sources) > 1 && err != nil {
			j.fail("access", last, err)
			return nil, nil, false
		}
		isDir = err == nil && info.IsDir()
	}
	if len(sources) > 1 && !isDir {
		j.fail("use as a target for several files", last, errNotDirectory)
		return nil, nil, false
	}
	taken := make(map[string]bool)
	for _, source := range sources {
		target := last
		if isDir {
			target = below(last, path.Base(strings.TrimRight(source, "/")))
		}
		if taken[target] {
			j.fail("replace", target, errors.New("another file of this name was just moved there"))
			target = ""
		}
		taken[target] = true
		targets = append(targets, target)
	}
	return sources, targets, true
}

func (m *mover) move(names []string) {
	links := m.links(names[:len(names)-1])
	sources, targets, ok := m.into(names, m.o.NoDirectory)
	if !ok {
		return
	}
	lost := m.replacedByLinks(links(), sources, targets)
	var ops pipeline
	for i, source := range sources {
		target := targets[i]
		if target == "" || m.over() {
			continue
		}
		if lost[i] {
			m.fail("move", source, errors.New("it is a link to the target"))
			continue
		}
		if m.keeps(target, &ops) {
			continue
		}
		from, to := m.at(source), m.at(target)
		if from == to && !m.o.NoClobber {
			m.fail("move", source, errors.New("source and target are the same"))
			continue
		}
		var pending *usftp.Pending[struct{}]
		if m.o.NoClobber || !m.client.HasPosixRename() {
			pending = m.client.Async().Rename(from, to)
		} else {
			pending = m.client.Async().PosixRename(from, to)
		}
		ops.add(func() {
			_, err := pending.Wait()
			switch {
			case err == nil:
				m.did("moved", source, target, "renamed "+m.quoted(source)+" -> "+m.quoted(target))
			case m.o.NoClobber && errors.Is(err, fs.ErrExist):
			default:
				m.notMoved(source, target, err)
			}
		})
	}
	ops.drain()
}

// links asks which files are symbolic links, and returns a function that waits for the answers.
func (m *mover) links(names []string) (wait func() []bool) {
	found := make([]bool, len(names))
	var ops pipeline
	for i, name := range names {
		pending := m.client.Async().Lstat(m.at(name))
		ops.add(func() {
			info, err := pending.Wait()
			found[i] = err == nil && info.Mode()&fs.ModeSymlink != 0
		})
	}
	return func() []bool {
		ops.drain()
		return found
	}
}

// replacedByLinks returns which targets are the files that their source, a symbolic link, leads to.
// The link would replace the file and then lead to itself.
func (m *mover) replacedByLinks(links []bool, sources, targets []string) []bool {
	lost := make([]bool, len(links))
	var ops pipeline
	for i, target := range targets {
		if !links[i] || target == "" {
			continue
		}
		async := m.client.Async()
		from, to := async.RealPath(m.at(sources[i])), async.RealPath(m.at(target))
		old := async.Lstat(m.at(target))
		ops.add(func() {
			source, fromErr := from.Wait()
			file, toErr := to.Wait()
			info, err := old.Wait()
			lost[i] = cmp.Or(fromErr, toErr, err) == nil && source == file &&
				info.Mode()&fs.ModeSymlink == 0
		})
	}
	ops.drain()
	return lost
}

// notMoved reports why a file could not be moved. Version 3 tells little, so both names are looked
// at: one round trip, and two more if only a directory that is not empty explains it.
func (m *mover) notMoved(source, target string, err error) {
	if m.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		m.fail("move", source, err)
		return
	}
	async := m.client.Async()
	askFrom, askTo := async.Lstat(m.at(source)), async.Lstat(m.at(target))
	from, fromErr := askFrom.Wait()
	to, toErr := askTo.Wait()
	switch {
	case fromErr != nil:
		m.fail("move", source, fromErr)
		return
	case from.IsDir() && m.inside(target, source):
		err = errors.New("a directory cannot be moved into itself")
	case toErr != nil:
		err = m.whyMissing(target, err)
	case errors.Is(err, fs.ErrPermission):
	case to.IsDir() && !from.IsDir():
		err = errors.New("cannot overwrite a directory with a non-directory")
	case from.IsDir() && !to.IsDir():
		err = errors.New("cannot overwrite a non-directory with a directory")
	case from.IsDir() && m.holds(target):
		err = errNotEmpty
	}
	if errors.Is(err, usftp.ErrSSHFxFailure) && !errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s (SFTP cannot move between file systems; usftp cp and rm do)",
			reasonOf(err))
	}
	m.failed(1, "move "+m.title(source)+" to "+m.title(target), source, err)
}

// inside reports whether what a name is to become lies in a directory, also through links.
func (m *mover) inside(name, dir string) bool {
	parent, _ := path.Split(strings.TrimRight(m.at(name), "/"))
	async := m.client.Async()
	askParent, askDir := async.RealPath(cmp.Or(parent, ".")), async.RealPath(m.at(dir))
	parent, err := askParent.Wait()
	real, dirErr := askDir.Wait()
	return cmp.Or(err, dirErr) == nil &&
		strings.HasPrefix(strings.TrimRight(parent, "/")+"/", strings.TrimRight(real, "/")+"/")
}

// holds reports whether a directory holds anything.
func (j *job) holds(name string) bool {
	for _, err := range j.client.Entries(j.at(name)) {
		return err == nil
	}
	return false
}

// keeps reports whether an existing target must be kept, asking if necessary.
func (m *mover) keeps(target string, ops *pipeline) bool {
	if !m.o.Interactive || m.o.NoClobber {
		return false
	}
	ops.drain()
	if _, err := m.client.Lstat(m.at(target)); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return !m.confirm("replace", target)
}

// confirm asks about a file. If nobody can be asked the answer is no.
func (j *job) confirm(question, name string) bool {
	j.flush()
	if j.Ask == nil || j.over() {
		return false
	}
	yes, err := j.Ask(j.ctx, question+" "+j.title(name)+"?")
	if err != nil && j.err == nil {
		j.err = err
	}
	return yes
}

// LinkOptions are the options of ln.
type LinkOptions struct {
	Symbolic    bool // -s
	Force       bool // -f: replace an existing link or file
	NoDirectory bool // -T: the last name is the link, even if it is a directory
	NoFollow    bool // -n: like NoDirectory, if the last name is a link to a directory
}

// Link is ln: the last name is the link, or the directory for links to the others. With Symbolic
// the others are the links' text. Hard links need hardlink@openssh.com.
func Link(ctx context.Context, env *Env, o LinkOptions, names []string) error {
	j := env.begin(ctx, "ln")
	noDirectory := o.NoDirectory
	if last := names[len(names)-1]; o.NoFollow && !noDirectory {
		info, err := j.client.Lstat(j.at(last))
		noDirectory = err == nil && info.Mode()&fs.ModeSymlink != 0
	}
	sources, targets, ok := j.into(names, noDirectory)
	if ok {
		for i, source := range sources {
			if targets[i] != "" && !j.over() {
				j.link(o, source, targets[i])
			}
		}
	}
	return j.end()
}

// link makes one link.
func (j *job) link(o LinkOptions, source, target string) {
	make := func(at string) error {
		if o.Symbolic {
			return j.client.Symlink(source, at)
		}
		return j.client.Link(j.at(source), at)
	}
	at := j.at(target)
	err := make(at)
	switch {
	case !o.Force || !errors.Is(err, fs.ErrExist):
	case o.Symbolic && leadsTo(at, source) == path.Clean(at):
		err = errors.New("the link would replace what it leads to")
	default:
		err = j.replaceBy(at, make)
	}
	switch {
	case err != nil:
		j.notLinked(o, source, target, err)
	case o.Symbolic:
		j.did("linked", target, source, j.quoted(target)+" -> "+quoted(source))
	default:
		j.did("linked", target, source, j.quoted(target)+" => "+j.quoted(source))
	}
}

// leadsTo returns the path to which a symbolic link with this text leads.
func leadsTo(link, text string) string {
	if path.IsAbs(text) {
		return path.Clean(text)
	}
	return path.Join(path.Dir(link), text)
}

// notLinked reports why a link could not be made. Servers do not say that a directory cannot have
// another hard link.
func (j *job) notLinked(o LinkOptions, source, target string, err error) {
	err = j.whyMissing(target, err)
	if !o.Symbolic && errors.Is(err, fs.ErrPermission) {
		if info, statErr := j.client.Lstat(j.at(source)); statErr == nil && info.IsDir() {
			err = errors.New("hard link not allowed for directory")
		}
	}
	j.failed(1, "make a link "+j.title(target)+" to "+source, target, err)
}

// replaceBy makes something under a temporary name and renames it over the existing name.
func (j *job) replaceBy(at string, make func(at string) error) error {
	if info, err := j.client.Lstat(at); err == nil && info.IsDir() {
		return errIsDirectory
	}
	dir, base := path.Split(at)
	free := func() string {
		return dir + "." + base + ".usftp-" + strconv.FormatUint(rand.Uint64(), 36)
	}
	temporary := free()
	if err := make(temporary); err != nil {
		return err
	}
	var err error
	if j.client.HasPosixRename() {
		err = j.client.PosixRename(temporary, at)
	} else {
		err = j.renameOver(temporary, at, free())
	}
	if err != nil || !sameAfterRename(j.client, temporary) {
		j.client.Remove(temporary)
	}
	return err
}

// renameOver stands in for posix-rename: it renames what is to be replaced out of the way, and back
// if the new name is refused.
func (j *job) renameOver(name, at, aside string) error {
	if err := j.client.Rename(at, aside); err != nil {
		return err
	}
	err := j.client.Rename(name, at)
	if err == nil {
		if err = j.client.Remove(aside); err != nil {
			err = fmt.Errorf("%w; the link was made, and what it replaced is now called %s", err, aside)
		}
		return err
	}
	if j.client.Rename(aside, at) != nil {
		err = fmt.Errorf("%w; what it should have replaced is now called %s", err, aside)
	}
	return err
}

// sameAfterRename reports whether the temporary name is gone. Renaming one hard link to another of
// the same file does nothing and keeps both.
func sameAfterRename(client *usftp.Client, temporary string) bool {
	_, err := client.Lstat(temporary)
	return errors.Is(err, fs.ErrNotExist)
}

// MakeDirectoryOptions are the options of mkdir.
type MakeDirectoryOptions struct {
	Parents bool   // -p: make missing parents too, and accept existing directories
	Mode    string // -m: octal or symbolic; "" leaves it to the server
}

// MakeDirectory is mkdir.
func MakeDirectory(ctx context.Context, env *Env, o MakeDirectoryOptions, names []string) error {
	j := env.begin(ctx, "mkdir")
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
		made, err := j.makeDirectory(name, o.Parents)
		if err == nil && mode != nil && len(made) > 0 {
			err = j.client.Chmod(j.at(name), wire.FileMode(mode.apply(0o777, true)))
		}
		for _, name := range made {
			j.done("made", name, "mkdir: created directory "+j.quoted(name))
		}
		if err != nil {
			j.fail("make directory", name, j.whyMissing(name, err))
		}
	}
	return j.end()
}

// makeDirectory makes a directory, with missing parents if parents is set, and returns what it has
// made, even if it fails.
func (j *job) makeDirectory(name string, parents bool) (made []string, err error) {
	if !parents {
		if err := j.client.Mkdir(j.at(name)); err != nil {
			return nil, err
		}
		return []string{name}, nil
	}
	_, missing := j.present(prefixes(name))
	if err = j.client.MkdirAll(j.at(name)); err != nil {
		made, _ = j.present(missing)
		return made, err
	}
	return missing, nil
}

// present returns which names exist and which do not, after one round trip. Those about which the
// server cannot be asked, as when the connection is lost, are neither.
func (j *job) present(names []string) (there, missing []string) {
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

// RemoveDirectoryOptions are the options of rmdir.
type RemoveDirectoryOptions struct {
	Parents bool // -p: also the parents in the path
}

// RemoveDirectory is rmdir: it removes empty directories.
func RemoveDirectory(ctx context.Context, env *Env, o RemoveDirectoryOptions,
	names []string) error {
	j := env.begin(ctx, "rmdir")
	var ops pipeline
	for _, name := range names {
		if o.Parents {
			j.removeChain(name)
			continue
		}
		pending := j.client.Async().RemoveDirectory(j.at(name))
		ops.add(func() {
			_, err := pending.Wait()
			j.directoryRemoved(name, err)
		})
	}
	ops.drain()
	return j.end()
}

// removeChain removes a directory and then its parents.
func (j *job) removeChain(name string) {
	for name = strings.TrimRight(name, "/"); name != "" && name != "." && !j.over(); {
		err := j.client.RemoveDirectory(j.at(name))
		if j.directoryRemoved(name, err); err != nil {
			return
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return
		}
		name = strings.TrimRight(name[:i], "/")
	}
}

// directoryRemoved reports the outcome of rmdir for a directory. GNU's rmdir -v names it before it
// tries, so it is named in any case.
func (j *job) directoryRemoved(name string, err error) {
	text := "rmdir: removing directory, " + j.quoted(name)
	if err == nil {
		j.done("removed", name, text)
		return
	}
	if j.Verbose && !j.JSON {
		j.line(text)
	}
	j.fail("remove directory", name, j.whyNotRemoved(name, err))
}

// whyNotRemoved investigates a refusal without a reason.
func (j *job) whyNotRemoved(name string, err error) error {
	if !errors.Is(err, usftp.ErrSSHFxFailure) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, statErr := j.client.Lstat(j.at(name))
	switch {
	case statErr != nil:
		return err
	case !info.IsDir():
		return errNotDirectory
	}
	if j.holds(name) {
		return errNotEmpty
	}
	return err
}
