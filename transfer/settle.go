package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/usftp/usftp"
)

// placing is the last step of an upload, whose answers a lost connection can swallow: what of it
// was done is then looked at before any of it is done again.
type placing struct {
	temporary string // complete, and known to nobody else
	aside     string // what the old file may be called meanwhile; "" where it keeps its name
	size      int64
}

// place gives the temporary file the target's name.
func (r *run) place(temporary string, target *remoteTarget, size int64) error {
	ctx, cancel := r.lateContext()
	defer cancel()
	client := r.Host.Client.WithContext(ctx)
	if r.placing == nil {
		r.placing = &placing{temporary: temporary, size: size}
		// once: a server that has lost it all when it is asked again gets it so many times as there
		// are tries
		if !r.arrived {
			r.arrived = true
			r.line.arrive() // whatever becomes of the name, none of it travels again
		}
	}
	var err error
	switch {
	case client.HasPosixRename():
		err = client.PosixRename(temporary, target.path)
	case target.before == nil && r.placing.aside == "":
		err = client.Rename(temporary, target.path)
	default:
		err = r.replace(client, temporary, target.path)
	}
	if err == nil {
		r.placing = nil
		return nil
	}
	r.result.LeftBehind = temporary
	r.detail = fmt.Sprintf("all of the data is in %s:%s", r.Host.Name, temporary)
	if !refused(err) {
		r.detail += ", or has its name already"
	}
	if aside := r.placing.aside; aside != "" {
		r.detail += fmt.Sprintf("; the file that it replaces may be %s:%s", r.Host.Name, aside)
	}
	if refused(err) {
		r.placing = nil
		r.noRename(err, target.before == nil)
		r.detail += "; with --inplace the target itself is written"
		if _, lookErr := client.Lstat(temporary); errors.Is(lookErr, fs.ErrNotExist) {
			r.result.LeftBehind = ""
			r.detail = fmt.Sprintf("all of the data was in %s:%s, which is no more: look at what has the target's name", r.Host.Name, temporary)
		}
	}
	return err
}

// refused tells whether a server has said that it has not done something; else nobody knows.
func refused(err error) bool {
	var status *usftp.StatusError
	return errors.As(err, &status)
}

// replace is posix-rename where the server has none: RENAME fails on a name that exists (draft-02,
// section 6.5), so the old file steps aside until the new one is in place. Where an earlier try has
// begun with it, it goes on.
func (r *run) replace(client *usftp.Client, temporary, target string) error {
	p := r.placing
	stepped := false
	if p.aside == "" {
		p.aside = path.Join(path.Dir(target), temporaryName(path.Base(target)))
	} else if _, err := client.Lstat(p.aside); err == nil {
		stepped = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !stepped {
		err := client.Rename(target, p.aside)
		if refused(err) {
			p.aside = ""
		}
		if err != nil {
			return err
		}
	}
	if err := client.Rename(temporary, target); err != nil {
		if client.Rename(p.aside, target) == nil {
			p.aside = ""
		}
		return err
	}
	return r.removeAside(client)
}

// removeAside removes the file that was replaced.
func (r *run) removeAside(client *usftp.Client) error {
	aside := r.placing.aside
	if aside == "" {
		return nil
	}
	err := client.Remove(aside)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return nil
	case lost(r.Host.Client) && r.Host.renews(&r.Options):
		return err // and over a new connection it is looked at again
	}
	r.note(fmt.Sprintf("the file that was replaced could not be removed: it is %s", aside))
	return nil
}

// settle finds out how far the last step of an upload has come whose connection was lost in it, and
// does the rest. It returns false where nothing of it is left, and all must be done anew.
//
// That the temporary name is no more means that the rename was done, since nobody else knows it;
// what has the target's name must then be as large.
func (r *run) settle(target *remoteTarget) (done bool, err error) {
	client, p := r.Host.Client, r.placing
	left, err := client.Lstat(p.temporary)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		there, err := client.Lstat(target.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err != nil || there.Size() != p.size {
			r.placing = nil
			return false, nil
		}
		if err := r.removeAside(client); err != nil {
			return false, err
		}
		r.placing = nil
	case err != nil:
		return false, err
	case left.Size() != p.size:
		r.strays = append(r.strays, p.temporary)
		r.placing = nil
		return false, nil
	default:
		r.temporary = p.temporary
		err := r.place(p.temporary, target, p.size)
		if refused(err) { // what was asked for over the old connection may have been done only now
			return r.settled(target, p, err)
		}
		if err != nil {
			return false, err
		}
	}
	r.result.Bytes = p.size
	return true, nil
}

// settled looks at a rename that was refused because it had been done.
func (r *run) settled(target *remoteTarget, p *placing, refusal error) (done bool, err error) {
	if _, err := r.Host.Client.Lstat(p.temporary); !errors.Is(err, fs.ErrNotExist) {
		return false, refusal
	}
	there, err := r.Host.Client.Lstat(target.path)
	if err != nil || there.Size() != p.size {
		return false, refusal
	}
	r.result, r.detail = Result{Target: target.path, Bytes: p.size}, ""
	return true, nil
}

// removeStrays removes what tries have left that lost their connection before anything was worth
// keeping.
func (r *run) removeStrays() {
	for len(r.strays) > 0 {
		err := r.Host.Client.Remove(r.strays[0])
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !refused(err) {
			return // the connection is lost again
		}
		r.strays = r.strays[1:]
	}
}
