package endpoint

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// HostRoot is a directory of a host as a Root. A host that has beneath@usftp sees to it itself that
// no link is followed (docs/beneath.md). On others somebody has to look: what is done there by a
// path follows a link that takes a directory's place right after the look.
type HostRoot struct {
	host *Host
	root string
	view atomic.Pointer[view]
	real realPath // the root's

	// a directory was not looked at before deleting, since the host follows no links
	trusting atomic.Bool
}

// A view is a connection as it is used below the root. Another connection may reach a server
// without beneath@usftp, so that is found out for each.
type view struct {
	of, client *usftp.Client
	ok         bool
}

// NewHostRoot returns a Root for a directory, which need not exist yet and may be a link: the user
// named it.
func NewHostRoot(h *Host, dir string) *HostRoot { return &HostRoot{host: h, root: dir} }

// Below implements Place.
func (h *Host) Below(dir string) (Root, error) { return NewHostRoot(h, dir), nil }

// View returns a client whose requests follow no link below the root; ok is false, and the client
// follows links, if the host cannot promise that.
func (r *HostRoot) View(client *usftp.Client) (below *usftp.Client, ok bool) {
	if last := r.view.Load(); last != nil && (last.of == client || last.client == client) {
		return last.client, last.ok
	}
	v := &view{of: client}
	above := strings.TrimSuffix(path.Join(r.root, "x"), "x")
	v.client, v.ok = private.OfClient(client).Beneath(above)
	r.view.Store(v)
	return v.client, v.ok
}

// over is Host.Over with a view.
func (r *HostRoot) over(name string, do func(client *usftp.Client, again bool) error) error {
	return r.host.Over(name, func(client *usftp.Client, again bool) error {
		below, _ := r.View(client)
		return do(below, again)
	})
}

// at returns a name's path.
func (r *HostRoot) at(name string) string { return path.Join(r.root, name) }

// Lstat implements FS.
func (r *HostRoot) Lstat(name string) (i Info, err error) {
	name = r.at(name)
	err = r.over(name, func(client *usftp.Client, _ bool) error {
		i, err = seen(private.OfClient(client).Look(name))
		return err
	})
	return i, err
}

// ReadLink implements FS.
func (r *HostRoot) ReadLink(name string) (text string, err error) {
	name = r.at(name)
	err = r.over(name, func(client *usftp.Client, _ bool) error {
		text, err = client.ReadLink(name)
		return err
	})
	return text, err
}

// SameLink implements Root.
func (r *HostRoot) SameLink(name, have, want string) bool {
	return private.OfClient(r.host.conn.Host().Client).LinksTo(r.at(name), have, want)
}

// List implements FS.
func (r *HostRoot) List(dir string, _ *Info, restart func(),
	each func(string, Info, error) bool) error {
	return r.host.list(r.at(dir), restart, each, r.over)
}

// ReadSmall implements FS.
func (r *HostRoot) ReadSmall(name string, most int64) (data []byte, was Info, err error) {
	name = r.at(name)
	err = r.over(name, func(client *usftp.Client, _ bool) error {
		data, was, err = readSmallFrom(client, name, most)
		return err
	})
	return data, was, err
}

// WriteSmall implements FS.
func (r *HostRoot) WriteSmall(name string, data []byte, create bool) error {
	name = r.at(name)
	return r.over(name, func(client *usftp.Client, again bool) error {
		return r.host.writeSmallTo(client, name, data, create, again)
	})
}

// Remove implements FS.
func (r *HostRoot) Remove(name string, dir bool) error {
	return r.over(r.at(name), func(client *usftp.Client, again bool) error {
		if err := r.trusted(client, path.Dir(name)); err != nil {
			return err
		}
		return r.host.removeOn(client, r.at(name), dir, again)
	})
}

// FollowsLinks implements Root.
func (r *HostRoot) FollowsLinks() bool {
	_, ok := r.View(r.host.conn.Host().Client)
	return !ok
}

// InPlace implements Root. It looks at the directory and all above it, in one round trip.
func (r *HostRoot) InPlace(dir string) (err error) {
	client, ok := r.View(r.host.conn.Host().Client)
	if ok {
		return nil
	}
	var waits []func() error
	for ; dir != "."; dir = path.Dir(dir) {
		at := r.at(dir)
		look := private.OfClient(client).StartLook(at)
		waits = append(waits, func() error {
			if info, err := look(); err == nil && !info.IsDir() {
				return &fs.PathError{Op: "write", Path: at, Err: ErrLinkInWay}
			}
			return nil
		})
	}
	for _, wait := range waits {
		err = cmp.Or(err, wait())
	}
	return err
}

// Unmoved implements Root. It asks the host for the directory's real path, unless the host has
// beneath@usftp and follows no link when it deletes. Plain SFTP cannot ask for that, so if a link
// replaces the directory between this check and the deletion, the deletion follows it.
func (r *HostRoot) Unmoved(dir string) error {
	return r.over(r.at(dir), func(client *usftp.Client, _ bool) error {
		if _, ok := r.View(client); ok {
			r.trusting.Store(true)
			return nil
		}
		return r.unmovedOn(client, dir)
	})
}

// trusted makes the check of Unmoved if that relied on beneath@usftp, but this connection has
// reached a server without it.
func (r *HostRoot) trusted(client *usftp.Client, dir string) error {
	if _, ok := r.View(client); ok || !r.trusting.Load() {
		return nil
	}
	return r.unmovedOn(client, dir)
}

func (r *HostRoot) unmovedOn(client *usftp.Client, dir string) error {
	if dir == "." {
		_, err := r.real.of(client, r.root)
		return err
	}
	_, err := r.lookDirOn(client, dir)
	return err
}

// LookDir implements Root.
func (r *HostRoot) LookDir(dir string) (i Info, err error) {
	err = r.over(r.at(dir), func(client *usftp.Client, _ bool) error {
		i, err = r.lookDirOn(client, dir)
		return err
	})
	return i, err
}

func (r *HostRoot) lookDirOn(client *usftp.Client, dir string) (Info, error) {
	if dir == "." {
		return seen(client.Stat(r.root))
	}
	root, err := r.real.of(client, r.root)
	if err != nil {
		return Info{}, err
	}
	looked := client.Async().Lstat(r.at(dir))
	real, realErr := client.RealPath(r.at(dir))
	info, err := looked.Wait()
	if private.Untold(err) {
		info, err = private.OfClient(client).Look(r.at(dir))
	}
	if err = cmp.Or(realErr, err); err == nil &&
		(cleaned(real) != path.Join(cleaned(root), dir) || !info.IsDir()) {
		err = ErrLinkInWay
	}
	return seen(info, err)
}

// cleaned returns what REALPATH answered in one form: servers for Windows may answer with
// backslashes, and others begin with two slashes.
func cleaned(real string) string {
	if !strings.HasPrefix(real, "/") {
		real = strings.ReplaceAll(real, `\`, "/")
	}
	return path.Clean(real)
}

// A realPath is asked for once.
type realPath struct{ known atomic.Pointer[string] }

func (p *realPath) of(client *usftp.Client, name string) (string, error) {
	if known := p.known.Load(); known != nil {
		return *known, nil
	}
	real, err := client.RealPath(name)
	if err == nil {
		p.known.Store(&real)
	}
	return real, err
}

// Mkdir implements Root. If the connection was lost during the request, an empty directory counts as
// made by it.
func (r *HostRoot) Mkdir(name string, perm fs.FileMode) (made bool, err error) {
	at := r.at(name)
	err = r.over(at, func(client *usftp.Client, again bool) error {
		err := client.MkdirPerm(at, perm)
		if err == nil {
			made = true
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return ExplainMissing(err, client, path.Dir(path.Clean(at)))
		}
		// Version 3 has no status for "already exists", so look at what is there.
		look := private.OfClient(client).Look
		if name == "." {
			look = private.OfClient(client).Find
		}
		there, lookErr := look(path.Clean(at))
		switch {
		case lookErr != nil && errors.Is(err, usftp.ErrSSHFxFailure):
			return ExplainFailure(err, client, r.host.conn.Host().Name, path.Dir(at))
		case lookErr != nil:
			return err
		case there.Mode()&fs.ModeSymlink != 0:
			return ErrLinkInWay
		case !there.IsDir():
			return ErrNotDirectory
		}
		if made = again; again {
			for _, err := range client.Entries(at) {
				if made = false; pool.Lost(client) {
					return err
				}
				break // there is an entry, or it cannot be listed
			}
		}
		return nil
	})
	return made, err
}

// Symlink implements Root.
func (r *HostRoot) Symlink(text, name string) error {
	name = r.at(name)
	return r.over(name, func(client *usftp.Client, again bool) error {
		if again && leadsTo(client, name, text) {
			return nil
		}
		return client.Symlink(text, name)
	})
}

// ReplaceByLink implements Root.
func (r *HostRoot) ReplaceByLink(text, name, temporary, aside string) error {
	name, temporary, aside = r.at(name), r.at(temporary), r.at(aside)
	return r.over(name, func(client *usftp.Client, again bool) error {
		if again {
			client.Remove(temporary)
			if err := TakeBack(client, aside, name); err != nil && !Refused(err) {
				return err
			}
			if leadsTo(client, name, text) {
				return nil
			}
		}
		return private.OfClient(client).ReplaceByLink(text, name, temporary, aside)
	})
}

// leadsTo reports whether a name is a link that means text.
func leadsTo(client *usftp.Client, name, text string) bool {
	have, err := client.ReadLink(name)
	return err == nil && private.OfClient(client).LinksTo(name, have, text)
}

// TakeBack gives a file that was moved aside its name back if that is free, and otherwise removes
// it. It may be gone already.
func TakeBack(client *usftp.Client, aside, target string) error {
	if _, err := client.Lstat(target); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = client.Remove(aside)
		}
		return IgnoreMissing(err)
	}
	return IgnoreMissing(client.Rename(aside, target))
}

// Rename implements Root.
func (r *HostRoot) Rename(from, to string) error {
	dir := path.Dir(from)
	from, to = r.at(from), r.at(to)
	return r.over(from, func(client *usftp.Client, again bool) error {
		if err := r.trusted(client, dir); err != nil {
			return err
		}
		err := private.OfClient(client).Move(from, to, false)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, lookErr := client.Lstat(to); lookErr == nil { // version 3 has no status for that
			if _, gone := client.Lstat(from); again && errors.Is(gone, fs.ErrNotExist) {
				return nil
			}
			return fs.ErrExist
		}
		return err
	})
}

// Link implements Root.
func (r *HostRoot) Link(name, to string) error {
	dir := path.Dir(name)
	name, to = r.at(name), r.at(to)
	return r.over(name, func(client *usftp.Client, _ bool) error {
		if err := r.trusted(client, dir); err != nil {
			return err
		}
		return client.Link(name, to)
	})
}

// Leave implements Root.
func (*HostRoot) Leave(string) {}

// Close implements Root.
func (*HostRoot) Close() {}
