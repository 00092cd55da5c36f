package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/usftp/usftp"
)

// placing is the last step of a copy to a host. If a lost connection swallows its replies, the next
// attempt finds out what was done before it does any of it again.
type placing struct {
	temporary string // complete, and a name that nobody else knows
	aside     string // the old file's name during the exchange; "" if it keeps its own
	size      int64
}

// commit gives the temporary file the target's name.
func (o *remoteOutput) commit(c *fileCopy, _ input) error {
	if o.temp == "" {
		return nil
	}
	if c.tries.placing == nil {
		c.tries.placing = &placing{temporary: o.temp, size: c.result.Bytes}
		// count it once: a server that loses everything when asked gets no endless attempts
		if !c.tries.arrived {
			c.tries.arrived = true
			o.session.conn.Arrived() // whatever becomes of the name
		}
	}
	err := c.tries.placing.rename(c, o)
	if err != nil && !refused(err) {
		c.journal.keep(c, false)
	}
	return err
}

// rename renames the temporary file, replacing an existing target.
func (p *placing) rename(c *fileCopy, o *remoteOutput) error {
	ctx, cancel := lateContext(c.ctx)
	defer cancel()
	client := o.session.client.WithContext(ctx)
	var err error
	switch {
	case client.HasPosixRename():
		err = client.PosixRename(p.temporary, o.name)
	case o.info == nil && p.aside == "":
		err = client.Rename(p.temporary, o.name)
	default:
		err = p.replace(c, o, client)
	}
	if err == nil {
		c.tries.placing = nil
		return nil
	}
	c.result.LeftBehind = p.temporary
	c.detail = "all of the data is in " + c.shown(p.temporary)
	if !refused(err) {
		c.detail += ", or has its name already"
	}
	if p.aside != "" {
		c.detail += "; the file that it replaces may be " + c.shown(p.aside)
	}
	if refused(err) {
		if p.aside == "" {
			c.tries.placing = nil
		}
		o.end.renameRefused(c, err, o.info == nil)
		c.detail += "; --inplace writes the target itself"
		if _, lookErr := client.Lstat(p.temporary); errors.Is(lookErr, fs.ErrNotExist) {
			c.result.LeftBehind = ""
			c.detail = fmt.Sprintf("all of the data was in %s, which is gone: check the file that has the target's name", c.shown(p.temporary))
		}
	}
	return err
}

// replace stands in for posix-rename on servers without it: RENAME fails if the name exists
// (draft-ietf-secsh-filexfer-02, section 6.5), so the old file is moved aside until the new one is
// in place. It continues what an earlier attempt began.
func (p *placing) replace(c *fileCopy, o *remoteOutput, client *usftp.Client) error {
	stepped := false
	if p.aside == "" {
		p.aside = path.Join(path.Dir(o.name), c.token.OldName(path.Base(o.name)))
	} else if _, err := client.Lstat(p.aside); err == nil {
		stepped = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !stepped {
		c.journal.noteAside(c, p)
		err := client.Rename(o.name, p.aside)
		if refused(err) {
			p.aside = ""
		}
		if err != nil {
			return err
		}
	}
	if err := client.Rename(p.temporary, o.name); err != nil {
		if client.Rename(p.aside, o.name) == nil {
			p.aside = ""
		}
		return err
	}
	return p.removeAside(c, o, client)
}

// removeAside removes the replaced file.
func (p *placing) removeAside(c *fileCopy, o *remoteOutput, client *usftp.Client) error {
	if p.aside == "" {
		return nil
	}
	err := client.Remove(p.aside)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case o.session.lost() && o.session.conn.Renews():
		return err // the next attempt will look at it again
	}
	c.warn(fmt.Sprintf("the file that was replaced could not be removed: it is %s", p.aside))
	return nil
}

// settle finds out how far a commit came whose connection was lost, and completes it. It returns
// false if the copy must be done again.
//
// If the temporary name is gone, the rename was done, since nobody else knows that name; the target
// must then have the right size.
func (o *remoteOutput) settle(c *fileCopy) (done bool, err error) {
	t, client := &c.tries, o.session.client
	if t.retried && t.made != "" && (t.placing == nil || t.placing.temporary != t.made) &&
		(c.journal.left == nil || c.journal.left.Temporary != t.made) {
		t.strays = append(t.strays, t.made)
		t.made = ""
	}
	p := t.placing
	if p == nil {
		return false, nil
	}
	left, err := client.Lstat(p.temporary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there, err := client.Lstat(o.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err != nil || there.Size() != p.size {
			return false, p.giveUp(c, o)
		}
		if err := p.removeAside(c, o, client); err != nil {
			return false, err
		}
		t.placing = nil
	case err != nil:
		return false, err
	case left.Size() != p.size:
		t.strays = append(t.strays, p.temporary)
		return false, p.giveUp(c, o)
	default:
		t.made = p.temporary
		err := p.rename(c, o)
		if refused(err) { // the old connection's request may have been executed only now
			return p.wasRenamed(c, o, err)
		}
		if err != nil {
			return false, err
		}
	}
	c.result.Bytes = p.size
	return true, nil
}

// giveUp ends a commit that cannot be completed, and gives the old file its name back.
func (p *placing) giveUp(c *fileCopy, o *remoteOutput) error {
	if p.aside != "" {
		if err := takeBack(o.session.client, p.aside, o.name); err != nil {
			return err
		}
		info, err := o.session.client.Lstat(o.name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			o.info = info
		}
	}
	c.tries.placing = nil
	return nil
}

// wasRenamed checks whether a rename was refused because it had already been done.
func (p *placing) wasRenamed(c *fileCopy, o *remoteOutput, refusal error) (done bool, err error) {
	if _, err := o.session.client.Lstat(p.temporary); !errors.Is(err, fs.ErrNotExist) {
		return false, refusal
	}
	there, err := o.session.client.Lstat(o.name)
	if err != nil || there.Size() != p.size {
		return false, refusal
	}
	c.result, c.detail = Result{Target: o.name, Bytes: p.size}, ""
	return true, nil
}
