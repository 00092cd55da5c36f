package endpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
	"golang.org/x/text/unicode/norm"
)

// HostRoot is the Root of a directory on a host. A host with beneath@usftp itself makes sure that
// no link is followed (docs/beneath.md). On others the client has to look first, and a request
// still follows a link that takes a directory's place right after the look.
type HostRoot struct {
	host *Host
	dir  hostDir
	view atomic.Pointer[view]
	may  atomic.Pointer[func() error] // set by Guard
	unopened

	// a directory was not checked before a deletion, since the host follows no links
	trusting atomic.Bool
}

// A view is a connection's client for requests below the root. Each connection needs its own, since
// another one may reach a server without beneath@usftp.
type view struct {
	of, client *usftp.Client
	ok         bool
}

// NewHostRoot returns a Root for a directory, which need not exist yet and may be a link: the user
// named it.
func NewHostRoot(h *Host, dir string) *HostRoot {
	return &HostRoot{host: h, dir: hostDir{root: dir}}
}

func (h *Host) Below(dir string) (Root, error) { return NewHostRoot(h, dir), nil }

// unopened is embedded in Roots that hold nothing open.
type unopened struct{}

func (unopened) Leave(string) error { return nil }
func (unopened) Close()             {}

// View returns a client whose requests for the entries of a directory follow no link below the
// root, or below the last link on the way there that stands for a directory. ok is false, and the
// client follows links, if the host cannot promise that.
func (r *HostRoot) View(client *usftp.Client, dir string) (below *usftp.Client, ok bool) {
	if link := r.dir.links.above(dir); link != "." {
		return private.OfClient(client).Beneath(r.dir.at(link) + "/")
	}
	if last := r.view.Load(); last != nil && (last.of == client || last.client == client) {
		return last.client, last.ok
	}
	v := &view{of: client}
	above := strings.TrimSuffix(path.Join(r.dir.root, "x"), "x")
	v.client, v.ok = private.OfClient(client).Beneath(above)
	r.view.Store(v)
	return v.client, v.ok
}

// viewed calls do with a view of the connection, and again over a new one if that was lost.
func (r *HostRoot) viewed(name string, do func(client *usftp.Client, again bool) error) error {
	return r.host.WithReconnect(r.dir.at(name), func(client *usftp.Client, again bool) error {
		if may := r.may.Load(); again && may != nil {
			if err := (*may)(); err != nil {
				return err
			}
		}
		below, _ := r.View(client, name)
		return do(below, again)
	})
}

func (r *HostRoot) Guard(may func() error) { r.may.Store(&may) }

// withReconnect works like viewed, and explains the error.
func (r *HostRoot) withReconnect(name string,
	do func(client *usftp.Client, again bool) error) error {
	return r.explain(r.viewed(name, do), path.Dir(name))
}

// explain returns the error for a link on the way to a directory if a host with beneath@usftp
// denied a request: its answer for a link is PERMISSION_DENIED.
func (r *HostRoot) explain(err error, dir string) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	client, ok := r.View(r.host.conn.Host().Client, dir)
	if !ok {
		return err
	}
	_, _, way := r.dir.way(client, dir, false)()
	return cmp.Or(way, err)
}

func (r *HostRoot) Lstat(name string) (Info, error) {
	return ask(r.withReconnect, name, func(client *usftp.Client) (Info, error) {
		return seen(r.dir.lookFor(name)(client, r.dir.at(name)))
	})
}

func (r *HostRoot) ReadLink(name string) (string, error) {
	return ask(r.withReconnect, name, func(client *usftp.Client) (string, error) {
		return client.ReadLink(r.dir.at(name))
	})
}

func (r *HostRoot) SameLink(name, have, want string) bool {
	return private.OfClient(r.host.conn.Host().Client).LinksTo(r.dir.at(name), have, want)
}

func (r *HostRoot) List(dir string, _ *Info, restart func(),
	each func(string, Info, error) bool) error {
	over := func(_ string, do func(*usftp.Client, bool) error) error { return r.viewed(dir, do) }
	return r.explain(r.host.list(r.dir.at(dir), restart, each, over), dir)
}

func (r *HostRoot) ReadSmall(name string, most int64) (data []byte, was Info, err error) {
	err = r.withReconnect(name, func(client *usftp.Client, _ bool) error {
		data, was, err = readSmallFrom(r.host, client, r.dir.at(name), most)
		return err
	})
	return data, was, err
}

func (r *HostRoot) WriteSmall(name string, data []byte, create func()) error {
	return r.withReconnect(name, func(client *usftp.Client, again bool) error {
		return r.host.writeSmallTo(client, r.dir.at(name), data, create, again)
	})
}

func (r *HostRoot) Remove(name string, dir bool) error {
	return r.withReconnect(name, func(client *usftp.Client, again bool) error {
		if err := r.trusted(client, path.Dir(name)); err != nil {
			return err
		}
		return r.host.removeOn(client, r.dir.at(name), dir, again)
	})
}

// StartRemove sends the request to remove a file. ok is false if it is not sent, since the host is
// not known to work in order: otherwise requests that are sent from now on are carried out after it.
// It is not repeated: if the connection is lost, the error is ErrRepeated.
func StartRemove(in Root, name string) (wait func() error, ok bool) {
	r, ok := in.(*HostRoot)
	if !ok || r.host.ctx.Err() != nil {
		return nil, false
	}
	client, _ := r.View(r.host.conn.Host().Client, name)
	if !private.OfClient(client).WorksInOrder() || r.trusting.Load() {
		return nil, false
	}
	removing := client.Async().Remove(r.dir.at(name))
	return func() error {
		_, err := removing.Wait()
		if err != nil && !Refused(err) && pool.Lost(client) {
			err = fmt.Errorf("%w: %w", ErrRepeated, err)
		}
		return err
	}, true
}

func (r *HostRoot) FollowsLinks() bool {
	_, ok := r.View(r.host.conn.Host().Client, ".")
	return !ok
}

// InPlace implements Root. It looks at the directory and all those above it, in one round trip.
func (r *HostRoot) InPlace(dir string) error {
	return r.viewed(dir, func(client *usftp.Client, _ bool) error {
		if _, ok := r.View(client, dir); ok {
			return nil
		}
		_, err, way := r.dir.way(client, dir, false)()
		if pool.Lost(client) {
			way = cmp.Or(way, err)
		}
		return way
	})
}

// Unmoved implements Root. It asks the host for the directory's real path, unless the host has
// beneath@usftp and follows no link when it deletes. Plain SFTP cannot ask for that, so if a link
// replaces the directory between this check and the deletion, the deletion follows it.
func (r *HostRoot) Unmoved(dir string) error {
	return r.withReconnect(dir, func(client *usftp.Client, _ bool) error {
		if _, ok := r.View(client, dir); ok {
			r.trusting.Store(true)
			return nil
		}
		return r.dir.unmoved(client, dir)
	})
}

// trusted repeats the check of Unmoved if that relied on beneath@usftp, but this connection has
// reached a server without it.
func (r *HostRoot) trusted(client *usftp.Client, dir string) error {
	if _, ok := r.View(client, dir); ok || !r.trusting.Load() {
		return nil
	}
	return r.dir.unmoved(client, dir)
}

func (r *HostRoot) LookDir(dir string) (Info, error) {
	return ask(r.withReconnect, dir, func(client *usftp.Client) (Info, error) {
		return r.dir.look(client, dir)
	})
}

func (r *HostRoot) SetAttrs(name string, kind fs.FileMode, own bool,
	set usftp.NewAttrs) (unset Unset, err error) {
	q, at := r.host.Quirks(), r.dir.at(name)
	if kind == fs.ModeSymlink { // it needs lsetstat@openssh.com (OpenSSH PROTOCOL, section 4.7)
		return unset, r.withReconnect(name, func(client *usftp.Client, _ bool) error {
			return client.LsetAttrs(at, set)
		})
	}
	if q.Settable(&set, kind == fs.ModeDir); set == (usftp.NewAttrs{}) {
		return unset, nil
	}
	err = r.withReconnect(name, func(client *usftp.Client, _ bool) error {
		if _, ok := r.View(client, name); kind == fs.ModeDir && (own && ok || r.dir.follows(name)) {
			return client.SetAttrs(at, set)
		}
		return SetUnfollowed(client, at, set, kind, own)
	})
	if !Refused(err) {
		return unset, err
	}
	// A refusal because another file is there now says nothing about the host.
	if is, err := r.Lstat(name); err != nil && !private.Untold(err) {
		return unset, err
	} else if is.HasMode && is.Mode.Type() != kind {
		return unset, &fs.PathError{Op: "setstat", Path: at, Err: ErrReplaced}
	}
	return SetEach(q, set, kind, own, func(part usftp.NewAttrs) error {
		return r.withReconnect(name, func(client *usftp.Client, _ bool) error {
			at := at
			if r.dir.follows(name) { // it may be a link
				if real, err := client.RealPath(at); err == nil {
					at = real
				}
			}
			return SetUnfollowed(client, at, part, kind, own)
		})
	})
}

func (r *HostRoot) KeepDirLink(name string) (Info, error) {
	i, err := lookAt(r.host, r.dir.at(name), followed)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !i.Mode.IsDir():
		err = ErrLinkInWay
	case err == nil:
		r.dir.links.keep(name, new(dirLink))
	}
	return i, err
}

// Mkdir implements Root. If the connection was lost during the request, an empty directory counts
// as made by it.
func (r *HostRoot) Mkdir(name string, perm fs.FileMode) (made bool, err error) {
	at := r.dir.at(name)
	err = r.withReconnect(name, func(client *usftp.Client, again bool) error {
		err := client.MkdirPerm(at, perm)
		if err == nil {
			made = true
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return ExplainMissing(err, client, path.Dir(path.Clean(at)))
		}
		// Version 3 has no status for "already exists", so look at the existing entry.
		there, lookErr := r.dir.lookFor(name)(client, path.Clean(at))
		switch {
		case lookErr != nil && errors.Is(err, usftp.ErrSSHFxFailure):
			return explainFailure(err, client, r.host.conn.Host().Name, path.Dir(at))
		case lookErr != nil:
			return ExplainMissing(err, client, path.Dir(path.Clean(at)))
		case !there.IsDir():
			return notDir(there)
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

func (r *HostRoot) Symlink(text, name string) error {
	at := r.dir.at(name)
	return r.withReconnect(name, func(client *usftp.Client, again bool) error {
		if again && leadsTo(client, at, text) {
			return nil
		}
		return occupied(client.Symlink(text, at), client, at)
	})
}

// occupied adds fs.ErrExist to a refusal if the name exists: version 3 has no status for that.
func occupied(err error, client *usftp.Client, name string) error {
	if Refused(err) && !errors.Is(err, fs.ErrNotExist) {
		if _, lookErr := Unfollowed(client, name); lookErr == nil {
			return fmt.Errorf("%w (%w)", err, fs.ErrExist)
		}
	}
	return err
}

func (r *HostRoot) ReplaceByLink(text, name, temporary, aside string) error {
	rel := name
	name, temporary, aside = r.dir.at(name), r.dir.at(temporary), r.dir.at(aside)
	return r.withReconnect(rel, func(client *usftp.Client, again bool) error {
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

// leadsTo reports whether a name is a link whose target means text.
func leadsTo(client *usftp.Client, name, text string) bool {
	have, err := client.ReadLink(name)
	return err == nil && private.OfClient(client).LinksTo(name, have, text)
}

// TakeBack renames a file that was moved aside back to its name if that is free, and otherwise
// removes the file. The file may be gone already.
func TakeBack(client *usftp.Client, aside, target string) error {
	if _, err := Unfollowed(client, target); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = client.Remove(aside)
		}
		return IgnoreMissing(err)
	}
	return IgnoreMissing(client.Rename(aside, target))
}

// Rename implements Root. It looks first: OpenSSH's server treats a link that leads nowhere as
// absent, and replaces it (process_rename in sftp-server.c). If the connection was lost during the
// request, a file that has left its old name for the new one counts as renamed.
func (r *HostRoot) Rename(from, to string) error {
	return r.both(from, to, func(client *usftp.Client, from, to string, again bool) error {
		look := private.OfClient(client).StartLook(from)
		_, free := Unfollowed(client, to)
		_, gone := look()
		switch {
		case free != nil:
			return occupied(private.OfClient(client).Move(from, to, false), client, to)
		case again && errors.Is(gone, fs.ErrNotExist):
			return nil // the first request was executed
		}
		return fs.ErrExist
	})
}

// Link implements Root. If the connection was lost during the request, a file with the same
// attributes under the new name counts as the link.
func (r *HostRoot) Link(name, to string) error {
	return r.both(name, to, func(client *usftp.Client, name, to string, again bool) error {
		err := occupied(client.Link(name, to), client, to)
		if again && errors.Is(err, fs.ErrExist) {
			is, isErr := seen(Unfollowed(client, name))
			there, thereErr := seen(Unfollowed(client, to))
			if cmp.Or(isErr, thereErr) == nil && is == there {
				return nil
			}
		}
		return err
	})
}

// both calls do with the paths of two names, and explains its error.
func (r *HostRoot) both(from, to string,
	do func(client *usftp.Client, from, to string, again bool) error) error {
	err := r.withReconnect(from, func(client *usftp.Client, again bool) error {
		if err := cmp.Or(r.trusted(client, path.Dir(from)),
			r.trusted(client, path.Dir(to))); err != nil {
			return err
		}
		return do(client, r.dir.at(from), r.dir.at(to), again)
	})
	return r.explain(err, path.Dir(to))
}

// A hostDir is the directory of a HostRoot, and looks at the entries below it.
type hostDir struct {
	root  string
	real  realPath
	links dirLinks
}

// at returns a name's path.
func (d *hostDir) at(name string) string { return path.Join(d.root, name) }

// follows reports whether a name may itself be a link: the root, or a link that stands for a
// directory.
func (d *hostDir) follows(name string) bool {
	return name == "." || d.links.of(name) != nil
}

// lookFor returns the function that stats a name.
func (d *hostDir) lookFor(name string) func(*usftp.Client, string) (fs.FileInfo, error) {
	if d.follows(name) {
		return followed
	}
	return Unfollowed
}

// way starts to look at a directory and all those above it, up to one that may be a link. wait
// returns the directory's info, or why it is unknown, and in way the error for an entry that blocks
// the way. With all, err may also be about a directory above it.
func (d *hostDir) way(client *usftp.Client, dir string,
	all bool) (wait func() (is fs.FileInfo, err, way error)) {
	var looks []func() (fs.FileInfo, error)
	var names []string
	for ; !d.follows(dir); dir = path.Dir(dir) {
		names = append(names, d.at(dir))
		looks = append(looks, private.OfClient(client).StartLook(d.at(dir)))
	}
	return func() (is fs.FileInfo, err, way error) {
		for i, look := range looks {
			info, lookErr := look()
			if i == 0 {
				is = info
			}
			if i == 0 || all || pool.Lost(client) {
				err = cmp.Or(err, lookErr)
			}
			if lookErr == nil && !info.IsDir() { // of several, the one nearest to the root counts
				way = &fs.PathError{Op: "write", Path: names[i], Err: notDir(info)}
			}
		}
		return is, err, way
	}
}

// look asks for the real path and looks at the directory and all those above it, in one round trip
// after the first, since some servers only clean the text of a path (those made with pkg/sftp).
// Where the host tells no real paths, the look must suffice.
func (d *hostDir) look(client *usftp.Client, dir string) (Info, error) {
	if d.follows(dir) {
		return seen(isDir(followed(client, d.at(dir))))
	}
	root, below, err := d.top(client, dir)
	if err != nil {
		return Info{}, err
	}
	looks := d.way(client, dir, root == "")
	if root == "" {
		is, err, way := looks()
		return seen(is, cmp.Or(way, err))
	}
	real, realErr := client.RealPath(d.at(dir))
	is, lookErr, way := looks()
	err = cmp.Or(way, realErr, lookErr)
	if err == nil && cleaned(real) != cleaned(strings.TrimRight(root, `/\`)+"/"+below) {
		err = ErrLinkInWay
	}
	return seen(is, err)
}

// top returns the real path of the last directory on the way to dir that may be reached through a
// link, and dir's path below it.
func (d *hostDir) top(client *usftp.Client, dir string) (real, below string, err error) {
	link := d.links.above(dir)
	if link == "." {
		real, err = d.real.of(client, d.root)
		return real, dir, err
	}
	real, err = d.links.of(link).real.of(client, d.at(link))
	return real, strings.TrimPrefix(dir, link+"/"), err
}

// unmoved fails if dir is no longer where it was. For the root it gets the real path others need.
func (d *hostDir) unmoved(client *usftp.Client, dir string) error {
	if dir == "." {
		_, err := d.real.of(client, d.root)
		return err
	}
	_, err := d.look(client, dir)
	return err
}

// cleaned returns REALPATH's answer in one form: servers for Windows may answer with backslashes,
// others begin with two slashes, or spell names as their file system does.
func cleaned(real string) string {
	if !strings.HasPrefix(real, "/") {
		real = strings.ReplaceAll(real, `\`, "/")
	}
	return norm.NFC.String(path.Clean(real))
}

// A realPath is requested once. It is "" if the host refuses to tell it.
type realPath struct{ known atomic.Pointer[string] }

func (p *realPath) of(client *usftp.Client, name string) (string, error) {
	if known := p.known.Load(); known != nil {
		return *known, nil
	}
	real, err := client.RealPath(name)
	if private.Untold(err) {
		real, err = "", nil
	}
	if err == nil {
		p.known.Store(&real)
	}
	return real, err
}
