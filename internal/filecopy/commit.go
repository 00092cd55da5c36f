package filecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
)

// A commitState records the progress of the last step of a copy to a host. If a lost connection
// swallows its replies, the next attempt finds out which requests were executed before it repeats
// any.
type commitState struct {
	temporary string // the complete file, under a name that nobody else knows
	aside     string // the old file's name during the exchange; "" if it keeps its own
	result    Result // of the attempt that began it
	source    *endpoint.Info
}

// giveName gives the temporary file the target's name.
func (o onHost) giveName(c *Copy, in *input) error {
	switch {
	case !o.atomic():
		return nil
	case o.whole.budget != nil:
		return o.whole.put(c, o, in)
	}
	// count it once: a server that loses everything when asked gets no endless attempts
	if c.known.committing == nil && !c.known.arrived {
		c.known.arrived = true
		c.to.conn.Arrived() // whether or not it gets its name
	}
	if o.hidden { // CLOSE gave it its name
		return nil
	}
	if c.known.committing == nil {
		c.known.committing = &commitState{temporary: o.temp, result: c.Result, source: in.info()}
	}
	err := c.known.committing.rename(c, o)
	if err == nil {
		if c.delta != nil {
			c.delta.leave()
		}
	} else if c.known.committing != nil && !endpoint.Refused(err) {
		c.journal.keep(c, false)
	}
	return err
}

// rename renames the temporary file, replacing an existing target.
func (p *commitState) rename(c *Copy, o onHost) error {
	ctx, cancel := c.late()
	defer cancel()
	client := o.client().WithContext(ctx)
	var err error
	switch {
	case o.link && !o.freed:
		err = private.OfClient(client).Move(p.temporary, o.name, true)
	case client.HasPosixRename() && !(o.untold && c.Repeats):
		err = client.PosixRename(p.temporary, o.name)
		if endpoint.Refused(err) && c.delta.close() { // Windows does not replace open files
			err = client.PosixRename(p.temporary, o.name)
		}
	case (o.info == nil || o.freed) && p.aside == "":
		err = client.Rename(p.temporary, o.name)
	default:
		c.delta.close()
		err = p.replace(c, o, client)
	}
	if err == nil {
		c.known.committing = nil
		return nil
	}
	if endpoint.Refused(err) && p.aside == "" {
		if why := p.givenUp(c, o, client, err); why != nil {
			return why
		}
	}
	p.tell(c, endpoint.Refused(err))
	if endpoint.Refused(err) {
		if p.aside == "" {
			c.known.committing = nil
		}
		inPlace := c.known.notRenamed || o.quirks.NoRename.Load()
		if !c.BehindLink() {
			inPlace = p.refused(c, o, client, err) || inPlace
		}
		if inPlace && !o.tries(c) && p.aside == "" && p.forgone(c, o) {
			c.Result.LeftBehind, c.Result.Detail = "", ""
			if !c.IsSmall() {
				c.journal.noteBefore(c, p.temporary) // there is nothing to continue
			}
			return fmt.Errorf("%w: %w", errNotRenamed, err)
		}
		if endpoint.Unexplained(err) {
			c.Result.Detail += c.Rules.InPlace
		}
		if _, lookErr := endpoint.Unfollowed(client, p.temporary); errors.Is(lookErr, fs.ErrNotExist) {
			c.Result.LeftBehind = ""
			what := "which is gone: check the file that has the target's name"
			if wentAlong(client, p.temporary) {
				what = "whose directory was moved or removed"
				c.Result.Unsure = true
			}
			c.Result.Detail = fmt.Sprintf("all of the data was in %s, %s", c.shown(p.temporary), what)
		}
	}
	return err
}

// givenUp drops the temporary file if the refusal says that no copy can have the target's name, and
// returns why. What could be read only once is kept where another name would do.
func (p *commitState) givenUp(c *Copy, o onHost, client *usftp.Client, refusal error) (why error) {
	there, lookErr := client.Lstat(o.name)
	switch {
	case endpoint.BadName(refusal) && endpoint.BadName(lookErr):
		why = lookErr // it names only the target
	case lookErr == nil && there.IsDir() && !c.known.spent:
		why = endpoint.InTheWay(o.name, there.Mode())
	}
	if why == nil || !p.drop(c, client) {
		return nil
	}
	c.known.committing = nil
	if lookErr != nil {
		c.Result.Detail = endpoint.NoSuchName
	}
	if slices.Contains(c.known.strays, p.temporary) { // it could not be removed
		c.Result.LeftBehind = p.temporary
	}
	return why
}

// tell says where the data is if the file does not get its name. sure is false if it may have it.
func (p *commitState) tell(c *Copy, sure bool) {
	c.Result.LeftBehind = p.temporary
	c.Result.Detail = "all of the data is in " + c.shown(p.temporary)
	if !sure {
		c.Result.Detail += ", or has its name already"
	}
	if p.aside != "" {
		c.Result.Detail += "; the file that it replaces may be " + c.shown(p.aside)
	}
}

// refused reports whether to write the target itself after a refused rename: if its name is free,
// or if nothing in its directory, or on this host, can be renamed. The status does not tell: many
// servers have only FAILURE, also for an open target or a full disk.
func (p *commitState) refused(c *Copy, o onHost, client *usftp.Client, err error) bool {
	if p.aside != "" || c.Options.Placement == PlaceAtomic || endpoint.NoRoom(err) {
		return false
	}
	if p.renamesNothing(c, o, client, path.Dir(o.name)) {
		if c.Listed != nil {
			root, dir := c.Paths()
			if dir != "." && !p.renamesNothing(c, o, client, root) { // only this directory refuses renames
				c.Findings().noTemporary.Store(true)
				o.report(c, "the host renames no files in some directories: they are written in place")
				return true
			}
		}
		o.quirks.NoRename.Store(true)
		o.report(c, RenamesNone)
		return true
	}
	if o.info == nil && isFree(client, o.name) {
		c.known.notRenamed = true // this file only: others keep their old contents
	}
	return c.known.notRenamed
}

// renamesNothing reports whether a directory takes an empty file of this run, so that there is room
// for names, but does not let it be renamed. The target's contents then get the room that the
// temporary file had. Files that wait for the answer share it.
func (p *commitState) renamesNothing(c *Copy, o onHost, client *usftp.Client,
	dir string) bool {
	o.quirks.Renaming.Lock()
	defer o.quirks.Renaming.Unlock()
	if o.quirks.NoRename.Load() {
		return true
	}
	own := func() string { return path.Join(dir, c.Token.Name(path.Base(o.name))) }
	name, other := own(), own()
	f, err := client.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		if !endpoint.Refused(err) { // it may have been made
			c.known.addStray(name)
		}
		return false
	}
	var refusal error
	if f.Close() == nil {
		refusal = client.Rename(name, other)
		if endpoint.Refused(refusal) && client.HasPosixRename() { // a host may deny only one of them
			refusal = client.PosixRename(name, other)
		}
		if refusal == nil {
			name = other
		}
	}
	switch err := client.Remove(name); {
	case endpoint.Refused(err) && !errors.Is(err, fs.ErrNotExist):
		leaves(c, name)
	case err != nil:
		c.known.addStray(name)
	}
	return endpoint.Refused(refusal) && !endpoint.NoRoom(refusal)
}

// drop removes the temporary file, and reports whether the target can be written instead. A host
// that denies renames may deny removals too.
func (p *commitState) drop(c *Copy, client *usftp.Client) bool {
	err := client.Remove(p.temporary)
	switch {
	case err == nil:
		return true
	case errors.Is(err, fs.ErrNotExist) || !endpoint.Refused(err): // it may be anywhere
		return false
	}
	leaves(c, p.temporary)
	c.known.addStray(p.temporary)
	return true
}

// leaves warns that a file of this run cannot be removed.
func leaves(c *Copy, name string) {
	c.Warn("the host does not remove files either: " + c.shown(name) + " is left behind")
}

// forgone reports whether another attempt can do without the temporary file, or copy it on the host
// if the source could be read only once.
func (p *commitState) forgone(c *Copy, o onHost) bool {
	if !c.known.spent {
		return p.drop(c, o.client())
	}
	if c.to.oneHandle() {
		return false
	}
	c.known.stored, c.known.spent = &stored{p.temporary, o.name, c.Request}, false
	return true
}

// stored is the copy of a source that could be read only once. The host copies its temporary file.
type stored struct {
	temporary, target string
	asked             Request // the original request
}

// source makes the temporary file the source of further attempts. Between attempts nobody else reads
// the request, as those do who report progress. It is not inlined, to keep the stacks of thousands of
// files small.
//
//go:noinline
func (s *stored) source(c *Copy) {
	there, r := *s.asked.Run, s.asked
	there.Src, r.Run, r.Source, r.Target = c.Dst, &there, s.temporary, s.target
	// a stream has no attributes
	there.Options.Attributes, there.Options.NoTargetDirectory = endpoint.Attributes{}, true
	c.Request = r
}

// dropStored removes the temporary file that was copied on the host, or reports where it is.
func dropStored(c *Copy, err error) {
	stored := c.known.stored.temporary
	c.Request = c.known.stored.asked
	if err == nil {
		if err = c.Dst.Remove(stored, false); err != nil {
			c.Result.LeftBehind = stored
			c.Warn("the temporary file " + c.shown(stored) + " could not be removed")
		}
	} else if _, lookErr := c.Dst.Lstat(stored); !errors.Is(lookErr, fs.ErrNotExist) {
		c.Result.LeftBehind = stored
		if c.Result.Detail != "" {
			c.Result.Detail += "; "
		}
		c.Result.Detail += "all of the data is in " + c.shown(stored)
	}
}

// errNotRenamed reports that the host does not rename files.
var errNotRenamed = errors.New("the host does not rename files")

// isFree reports whether a name is free, or the host does not tell.
func isFree(client *usftp.Client, name string) bool {
	_, err := client.Lstat(name)
	return errors.Is(err, fs.ErrNotExist) || private.Untold(err)
}

// replace stands in for posix-rename on servers without it: RENAME fails if the name exists
// (draft-ietf-secsh-filexfer-02, section 6.5), so the old file is moved aside until the new one is
// in place. It continues an earlier attempt's exchange.
func (p *commitState) replace(c *Copy, o onHost, client *usftp.Client) error {
	stepped := false
	if p.aside == "" {
		p.aside = path.Join(path.Dir(o.name), c.Token.OldName(path.Base(o.name)))
	} else if _, err := endpoint.Unfollowed(client, p.aside); err == nil {
		stepped = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !stepped {
		c.journal.noteAside(c, p)
		err := client.Rename(o.name, p.aside)
		if endpoint.Refused(err) {
			p.aside = ""
			c.journal.noteAside(c, p) // it still has its name
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // others may have removed it
			return err
		}
	}
	if err := client.Rename(p.temporary, o.name); err != nil {
		// A request of the old connection may have given the new file its name just now, and the RENAME
		// of some servers would replace it.
		if p.aside != "" && isFree(client, o.name) && client.Rename(p.aside, o.name) == nil {
			p.aside = ""
		}
		return err
	}
	return p.removeAside(c, client)
}

// removeAside removes the replaced file.
func (p *commitState) removeAside(c *Copy, client *usftp.Client) error {
	if p.aside == "" {
		return nil
	}
	err := client.Remove(p.aside)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case c.to.lost() && pools.OfConn(c.to.conn).Renews():
		return err // the next attempt will look at it again
	}
	c.Warn(fmt.Sprintf("the file that was replaced could not be removed: it is %s", p.aside))
	return nil
}

// finishCommit finds out how far a commit came before its connection was lost, and completes it. It
// returns false if the file must be copied again.
//
// If the temporary name is gone, the rename was done, since nobody else knows that name; the target
// must then have the right size.
func finishCommit(c *Copy, o onHost) (done bool, err error) {
	t, client := &c.known, o.client()
	if t.made != "" && (t.committing == nil || t.committing.temporary != t.made) &&
		(c.journal.left == nil || c.journal.left.Temporary != t.made) {
		t.addStray(t.made)
		t.made = ""
	}
	p := t.committing
	if p == nil {
		return false, nil
	}
	left, err := endpoint.Unfollowed(client, p.temporary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if named, err := p.hasName(c, o); named || err != nil {
			return err == nil, err
		}
		return false, p.giveUp(c, o)
	case err != nil:
		return false, err
	case left.Size() != p.result.Bytes:
		t.addStray(p.temporary)
		return false, p.giveUp(c, o)
	}
	t.made = p.temporary
	if err := c.MayCommit(); err != nil {
		p.tell(c, true)
		return false, err
	}
	err = p.rename(c, o)
	if endpoint.Refused(err) && !errors.Is(err, errNotRenamed) {
		// the old connection's request may have been executed only now
		if _, err := endpoint.Unfollowed(client, p.temporary); errors.Is(err, fs.ErrNotExist) {
			if named, err := p.hasName(c, o); named {
				return err == nil, err
			}
		}
	}
	if err != nil {
		return false, err
	}
	c.Result = p.result
	return true, nil
}

// hasName reports whether the complete file has the target's name, once its temporary one is gone,
// and completes the commit then.
func (p *commitState) hasName(c *Copy, o onHost) (named bool, err error) {
	stat, err := endpoint.Unfollowed(o.client(), o.name)
	if err != nil || !stat.Mode().IsRegular() || stat.Size() != p.result.Bytes {
		return false, endpoint.IgnoreMissing(err)
	}
	if err := p.removeAside(c, o.client()); err != nil {
		return true, err
	}
	c.known.committing, c.Result = nil, p.result
	return true, nil
}

// giveUp ends a commit that cannot be completed, and gives the old file its name back.
func (p *commitState) giveUp(c *Copy, o onHost) error {
	if p.aside != "" {
		if err := takeBack(o, p.aside); err != nil {
			return err
		}
	}
	c.known.committing = nil
	return nil
}

// takeBack gives an old file its name back, unless that is taken, and looks at what has the name.
func takeBack(o onHost, aside string) error {
	if err := endpoint.TakeBack(o.client(), aside, o.name); err != nil {
		return err
	}
	return o.look(endpoint.Unfollowed(o.client(), o.name))
}

func restore(c *Copy, o onHost, aside string) error {
	if _, old := localfs.OldNameOf(path.Base(aside)); !old || !o.left(c, aside) {
		return nil
	}
	return takeBack(o, aside)
}
