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
	"github.com/usftp/usftp/internal/private"
)

// MoveOptions are the options of mv.
type MoveOptions struct {
	NoClobber   bool // -n: keep existing files
	Interactive bool // -i: ask before replacing
	NoDirectory bool // -T: the target is the new name, even if it is a directory
}

// Move implements mv on one host: the last name is the new name, or the directory for the others.
func Move(ctx context.Context, env *Env, o MoveOptions, names []string) error {
	m := &mover{job: env.begin(ctx), o: o}
	m.move(names)
	return m.end()
}

type mover struct {
	*job
	o MoveOptions
}

// targetsOf returns the target for each source of mv or ln: inside the last name if that is a
// directory, otherwise that name. A target is "" if the source's failure has been reported. There
// are no sources if they cannot all go to the last name, which has been reported too.
func targetsOf(j *job, names []string, noDirectory bool) (sources, targets []string) {
	sources, last := names[:len(names)-1], names[len(names)-1]
	isDir := false
	if !noDirectory {
		info, err := j.client.Stat(j.at(last))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || len(sources) > 1 && err != nil {
			j.fail("access", last, err)
			return nil, nil
		}
		isDir = err == nil && info.IsDir()
	}
	if len(sources) > 1 && !isDir {
		j.fail("put several files into", last, errNotDirectory)
		return nil, nil
	}
	taken := make(map[string]bool)
	for _, source := range sources {
		target := last
		if isDir {
			target = below(last, path.Base(strings.TrimRight(source, "/")))
		}
		if taken[target] {
			j.fail("replace", target, errors.New("another file of this name was just put there"))
			target = ""
		}
		taken[target] = true
		targets = append(targets, target)
	}
	return sources, targets
}

func (m *mover) move(names []string) {
	look := m.startLooks(names[:len(names)-1])
	sources, targets := targetsOf(m.job, names, m.o.NoDirectory)
	looks := look()
	lost := m.replacedByLinks(looks, sources, targets)
	var ops pipeline
	for i, source := range sources {
		target := targets[i]
		if target == "" || m.over() {
			continue
		}
		if lost[i] {
			m.fail("move", source, errors.New("is a link to the target"))
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
		replaced := private.OfClient(m.client).StartLook(to)
		renamed := m.rename(from, to)
		ops.add(func() {
			there, thereErr := replaced()
			err := renamed()
			switch {
			case err == nil && thereErr == nil && m.stays(from, looks[i], there):
				m.fail("move", source, errors.New("source and target are names of the same file"))
			case err == nil:
				m.done("moved", source, target, "renamed "+m.quoted(source)+" -> "+m.quoted(target))
			case m.o.NoClobber && errors.Is(err, fs.ErrExist):
			default:
				m.notMoved(source, target, err)
			}
		})
	}
	ops.drain()
}

// rename renames a file and returns a function that waits for the answer. Where links might be
// followed it renames one file after the other. Without posix-rename it first moves an existing
// target out of the way.
func (m *mover) rename(from, to string) (wait func() error) {
	replace := !m.o.NoClobber
	renamed := m.startRename(from, to, replace)
	return func() error {
		err := renamed()
		if !replace || m.client.HasPosixRename() || !errors.Is(err, fs.ErrExist) ||
			!m.isFile(from) || !m.isFile(to) {
			return err
		}
		dir, base := path.Split(to)
		return renameOver(m.client, from, to, dir+"."+base+".usftp-"+
			strconv.FormatUint(rand.Uint64(), 36))
	}
}

func (m *mover) startRename(from, to string, replace bool) (wait func() error) {
	var pending *usftp.Pending[struct{}]
	switch own := private.OfClient(m.client); {
	case !own.KnowsLinks():
		err := own.Move(from, to, replace)
		return func() error { return err }
	case replace && m.client.HasPosixRename():
		pending = m.client.Async().PosixRename(from, to)
	default:
		pending = m.client.Async().Rename(from, to)
	}
	return func() error {
		_, err := pending.Wait()
		return err
	}
}

// isFile reports whether a name belongs to a regular file.
func (m *mover) isFile(name string) bool {
	info, err := private.OfClient(m.client).Look(name)
	return err == nil && info.Mode().IsRegular()
}

// startLooks asks for the attributes of files, and returns a function that waits for the answers,
// which are nil for files that cannot be looked at.
func (m *mover) startLooks(names []string) (wait func() []fs.FileInfo) {
	found := make([]fs.FileInfo, len(names))
	var ops pipeline
	for i, name := range names {
		look := private.OfClient(m.client).StartLook(m.at(name))
		ops.add(func() {
			if info, err := look(); err == nil {
				found[i] = info
			}
		})
	}
	return func() []fs.FileInfo {
		ops.drain()
		return found
	}
}

// stays reports whether a file kept its name although it was renamed: renaming one hard link to
// another of the same file does nothing. SFTP does not tell which files those are. So the target
// must have looked like the file, which must still look the same and be listed: a host may take
// several spellings for one name.
func (m *mover) stays(from string, source, target fs.FileInfo) bool {
	same := func(other fs.FileInfo) bool {
		a, b := statOf(source), statOf(other)
		return a.Mode == b.Mode && a.Size == b.Size && a.Mtime == b.Mtime && a.UID == b.UID &&
			a.GID == b.GID
	}
	if source == nil || !source.Mode().IsRegular() || !same(target) {
		return false
	}
	if now, err := private.OfClient(m.client).Look(from); err != nil || !same(now) {
		return false
	}
	dir, base := path.Split(from)
	for file, err := range m.client.Entries(cmp.Or(dir, ".")) {
		if err != nil || file.BaseName() == base {
			return err == nil
		}
	}
	return false
}

// replacedByLinks reports for each target whether its source is a symbolic link that leads to it.
// The link would replace the file and then lead to itself.
func (m *mover) replacedByLinks(looks []fs.FileInfo, sources, targets []string) []bool {
	lost := make([]bool, len(looks))
	var ops pipeline
	for i, target := range targets {
		if looks[i] == nil || looks[i].Mode()&fs.ModeSymlink == 0 || target == "" {
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

// notMoved reports why a file could not be moved. Version 3 gives no reason, so it checks both
// names: one round trip, and two more if only a directory that is not empty explains it.
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
		err = whyMissing(m.job, target, err)
	case errors.Is(err, fs.ErrPermission):
	case to.IsDir() && !from.IsDir():
		err = errors.New("cannot overwrite a directory with a non-directory")
	case from.IsDir() && !to.IsDir():
		err = errors.New("cannot overwrite a non-directory with a directory")
	case from.IsDir() && holds(m.job, target):
		err = errNotEmpty
	}
	if errors.Is(err, usftp.ErrSSHFxFailure) && !errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s (SFTP cannot move files between file systems; use usftp cp, then usftp rm)",
			reasonOf(err))
	}
	m.failed("move "+m.title(source)+" to "+m.title(target), source, err)
}

// inside reports whether a new name would lie in a directory, also through links.
func (m *mover) inside(name, dir string) bool {
	parent, _ := path.Split(strings.TrimRight(m.at(name), "/"))
	async := m.client.Async()
	askParent, askDir := async.RealPath(cmp.Or(parent, ".")), async.RealPath(m.at(dir))
	parent, err := askParent.Wait()
	real, dirErr := askDir.Wait()
	return cmp.Or(err, dirErr) == nil &&
		strings.HasPrefix(strings.TrimRight(parent, "/")+"/", strings.TrimRight(real, "/")+"/")
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
