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
	var links []link
	for i, source := range sources {
		if targets[i] != "" {
			links = append(links, link{source, targets[i]})
		}
	}
	if !private.OfClient(l.client).WorksInOrder() && len(links) > 1 {
		// The first shows what the server means by a symbolic link.
		inTurn(l.job, links[:1], l.make, l.made)
		links = links[1:]
	}
	inTurn(l.job, links, l.make, l.made)
	return l.end()
}

// A link is one to make.
type link struct{ source, target string }

// linked is the outcome of making one.
type linked struct{ err error }

func (l linked) failure() error { return nil } // it is not for lack of handles
func (l linked) close() bool    { return false }

type linker struct {
	*job
	o    LinkOptions
	told bool // the user has been told that relative links become absolute
}

// make makes one link.
func (l *linker) make(k link) linked {
	make := func(at string) error {
		if l.o.Symbolic {
			return l.client.Symlink(k.source, at)
		}
		return l.client.Link(l.at(k.source), at)
	}
	at := l.at(k.target)
	err := make(at)
	switch {
	case !l.o.Force || !errors.Is(err, fs.ErrExist):
	case l.o.Symbolic && leadsTo(at, k.source) == path.Clean(at):
		err = errors.New("the link would replace what it points to")
	default:
		err = l.replace(k.source, at, make)
	}
	return linked{err}
}

// made reports the outcome.
func (l *linker) made(k link, r linked) {
	source, target := k.source, k.target
	switch {
	case r.err != nil:
		l.notLinked(source, target, r.err)
	case l.o.Symbolic:
		l.done("linked", target, source, l.quoted(target)+" -> "+quoted(source))
		if !l.told && !path.IsAbs(source) && private.OfClient(l.client).LinksFromLogin() {
			l.told = true
			l.say("relative symbolic links become absolute: the host stores where they lead")
		}
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
