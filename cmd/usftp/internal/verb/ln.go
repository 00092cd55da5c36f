package verb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"path"
	"strconv"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// LinkOptions are the options of ln.
type LinkOptions struct {
	Symbolic    bool // -s
	Force       bool // -f: replace an existing link or file
	NoDirectory bool // -T: the last name is the link, even if it is a directory
	NoFollow    bool // -n: like NoDirectory, if the last name is a link to a directory
}

// Link implements ln: the last name is the link, or the directory for links to the others. With
// Symbolic the others are the links' text. Hard links need hardlink@openssh.com.
func Link(ctx context.Context, env *Env, o LinkOptions, names []string) error {
	l := &linker{job: env.begin(ctx), o: o}
	noDirectory := o.NoDirectory
	if last := names[len(names)-1]; o.NoFollow && !noDirectory {
		info, err := private.OfClient(l.client).Look(l.at(last))
		noDirectory = err == nil && info.Mode()&fs.ModeSymlink != 0
	}
	sources, targets := targetsOf(l.job, names, noDirectory)
	for i, source := range sources {
		if targets[i] != "" && !l.over() {
			l.link(source, targets[i])
		}
	}
	return l.end()
}

type linker struct {
	*job
	o LinkOptions
}

// link makes one link.
func (l *linker) link(source, target string) {
	make := func(at string) error {
		if l.o.Symbolic {
			return l.client.Symlink(source, at)
		}
		return l.client.Link(l.at(source), at)
	}
	at := l.at(target)
	err := make(at)
	switch {
	case !l.o.Force || !errors.Is(err, fs.ErrExist):
	case l.o.Symbolic && leadsTo(at, source) == path.Clean(at):
		err = errors.New("the link would replace what it points to")
	default:
		err = l.replace(source, at, make)
	}
	switch {
	case err != nil:
		l.notLinked(source, target, err)
	case l.o.Symbolic:
		l.done("linked", target, source, l.quoted(target)+" -> "+quoted(source))
	default:
		l.done("linked", target, source, l.quoted(target)+" => "+l.quoted(source))
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
func (l *linker) notLinked(source, target string, err error) {
	err = whyMissing(l.job, target, err)
	if !l.o.Symbolic && errors.Is(err, fs.ErrPermission) {
		if info, statErr := l.client.Lstat(l.at(source)); statErr == nil && info.IsDir() {
			err = errors.New("hard link not allowed for directory")
		}
	}
	l.failed("make a link "+l.title(target)+" to "+source, target, err)
}

// replace makes a link in place of an existing name.
func (l *linker) replace(source, at string, make func(at string) error) error {
	info, err := private.OfClient(l.client).Look(at)
	if err == nil && info.IsDir() {
		return errIsDirectory
	}
	dir, base := path.Split(at)
	free := func() string {
		return dir + "." + base + ".usftp-" + strconv.FormatUint(rand.Uint64(), 36)
	}
	temporary, aside := free(), free()
	if l.o.Symbolic {
		return private.OfClient(l.client).ReplaceByLink(source, at, temporary, aside)
	}
	if err := make(temporary); err != nil {
		return err
	}
	err = private.OfClient(l.client).Move(temporary, at, true)
	if !l.client.HasPosixRename() && errors.Is(err, fs.ErrExist) {
		err = renameOver(l.client, temporary, at, aside)
	}
	if err != nil || !isGone(l.client, temporary) {
		l.client.Remove(temporary)
	}
	return err
}

// renameOver stands in for posix-rename: it renames the old target out of the way, and back if the
// new name is refused. Ctrl-C does not interrupt it: nothing would have the target's name.
func renameOver(client *usftp.Client, name, at, aside string) error {
	client = client.WithContext(context.Background())
	if err := client.Rename(at, aside); errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%w; what it should have replaced may now be called %s", err, aside)
	} else if err != nil {
		return err
	}
	err := client.Rename(name, at)
	if err == nil {
		if err = client.Remove(aside); err != nil {
			err = fmt.Errorf("%w; it has its name, and what it replaced is now called %s", err, aside)
		}
		return err
	}
	if client.Rename(aside, at) != nil {
		err = fmt.Errorf("%w; what it should have replaced is now called %s", err, aside)
	}
	return err
}

// isGone reports whether a name no longer exists. Renaming one hard link to another of the same
// file does nothing and keeps both.
func isGone(client *usftp.Client, name string) bool {
	_, err := client.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}
