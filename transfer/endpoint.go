package transfer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/pool"
)

// An Endpoint is one end of a copy: a path on this machine, a path on a host, or a stream. See
// [Local], [Remote], [Reader] and [Writer].
type Endpoint struct {
	host, path string
	newSource  func(*job) (end, error)
	newTarget  func(*job) (target, error)
}

var (
	errNoSource = errors.New("a Writer cannot be the source of a copy")
	errNoTarget = errors.New("a Reader cannot be the target of a copy")
)

func (e Endpoint) from(j *job) (end, error) {
	if e.newSource == nil {
		return nil, errNoSource
	}
	return e.newSource(j)
}

func (e Endpoint) to(j *job) (target, error) {
	if e.newTarget == nil {
		return nil, errNoTarget
	}
	return e.newTarget(j)
}

// Local returns an endpoint for a path on this machine.
func Local(path string) Endpoint {
	return Endpoint{path: path,
		newSource: func(j *job) (end, error) { return localEnd{}, nil },
		newTarget: func(j *job) (target, error) {
			return &localTarget{job: j, placement: placement{new(quirks.Quirks)}}, nil
		}}
}

// localEnd is common to sources and targets on this machine.
type localEnd struct{ endpoint.Local }

func (localEnd) conn() *pool.Conn { return nil }

func (localEnd) opener(*session) endpoint.Opener { return endpoint.Local{} }

// localTarget is a path on this machine as a target. Everything below the target of a tree is
// written through os.Root, so that names from a server cannot lead outside.
type localTarget struct {
	localEnd
	job *job
	placement
	root *endpoint.LocalRoot // of a tree
}

func (t *localTarget) asSource() end { return t.localEnd }

// dispose removes one of our temporary files on this machine.
func (t *localTarget) dispose(temporary string) bool {
	dir, name := filepath.Split(temporary)
	root, err := os.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return false
	}
	defer root.Close()
	return root.Remove(name) == nil
}

// Remote returns an endpoint for a path on a host.
func Remote(host pool.Host, path string) Endpoint {
	return Endpoint{host: host.Name, path: path,
		newSource: func(j *job) (end, error) {
			e, err := newRemoteEnd(j, host)
			return &remoteSource{e}, err
		},
		newTarget: func(j *job) (target, error) {
			e, err := newRemoteEnd(j, host)
			if err != nil {
				return nil, err
			}
			return &remoteTarget{remoteEnd: e, placement: placement{e.Quirks()}}, nil
		}}
}

var errNoClient = errors.New("transfer: the Host has no Client")

// remoteEnd is common to sources and targets on a host.
type remoteEnd struct {
	*endpoint.Host
	job    *job
	client *usftp.Client // as the caller gave it
	link   *pool.Conn    // shared with the other end if both have the same client
}

func newRemoteEnd(j *job, host pool.Host) (*remoteEnd, error) {
	if host.Client == nil { // it would panic on a goroutine of ours
		return nil, errNoClient
	}
	e := &remoteEnd{job: j, client: host.Client}
	src := j.src
	if shared, ok := src.(*sharedSource); ok {
		src = shared.end
	}
	if other, ok := src.(*remoteSource); ok && other.client == host.Client {
		e.link = other.link
	} else {
		e.link = pool.NewConn(j.ctx, host, j.options.Retry)
	}
	e.Host = endpoint.NewHost(j.ctx, e.link, e.retrying)
	return e, nil
}

// retrying tells that a connection was lost while an entry of a tree was asked about.
func (e *remoteEnd) retrying(name string, a pool.Attempt) {
	event := e.job.retried(a, &Event{Size: -1})
	event.Source = name
	e.job.tell(event)
}

func (e *remoteEnd) conn() *pool.Conn { return e.link }

func (e *remoteEnd) opener(on *session) endpoint.Opener { return endpoint.OnHost{Host: &on.host} }

// remoteSource is a path on a host as a source.
type remoteSource struct{ *remoteEnd }

func (s *remoteSource) limits() (limits, error) {
	return s.remoteEnd.limits(func(read, _ int) int { return read })
}

// remoteTarget is a path on a host as a target.
type remoteTarget struct {
	*remoteEnd
	placement
	root *endpoint.HostRoot // of a tree
}

func (t *remoteTarget) asSource() end { return &remoteSource{t.remoteEnd} }

func (t *remoteTarget) dispose(string) bool { return false }

// end is a source, or what a target is besides.
type end interface {
	endpoint.Place

	// conn returns the connection to the host, or nil on this machine.
	conn() *pool.Conn

	// opener returns how files are opened during one attempt, over a connection if they are on a
	// host.
	opener(on *session) endpoint.Opener

	limits() (limits, error)
}

// resolved replaces what a path begins with, up to the last "..", by what it really is, so that
// from then on paths can be taken apart and joined as text. For the system "link/.." is the parent
// of what the link leads to.
func resolved(e end, name string) (string, error) {
	n := throughParent(name)
	if n == 0 || e.conn() == nil && runtime.GOOS == "windows" { // where ".." is text
		return name, nil
	}
	if _, _, isPath := e.Identity(name); !isPath {
		return name, nil
	}
	real, err := e.RealPath(name[:n])
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	if err != nil {
		return name, &fs.PathError{Op: "stat", Path: name[:n], Err: err}
	}
	if real = strings.TrimRight(real, "/") + name[n:]; real == "" {
		real = "/"
	}
	return real, nil
}

// throughParent returns the length of a path up to its last ".." that follows a name, 0 if there is
// none.
func throughParent(name string) (n int) {
	named := false
	for i := 0; i < len(name); i++ {
		element, _, _ := strings.Cut(name[i:], "/")
		i += len(element)
		switch element {
		case "", ".":
		case "..":
			if named {
				n = i
			}
		default:
			named = true
		}
	}
	return n
}

// A target is an endpoint that is written.
type target interface {
	end

	// place examines where a file goes. For files of trees it leaves nothing open.
	place(c *fileCopy, in *input) (*output, error)

	// dispose removes what was left for another attempt and reports whether it did, for a target
	// that is still reachable when the connection is lost.
	dispose(temporary string) bool

	// begin resolves the target of a tree; base is the copy's name if the target is a directory.
	// Before it makes anything it calls inside, which fails if the target lies in the source. After
	// an error only the path is set.
	begin(source endpoint.Info, base string, inside func() error) (targetDir, error)

	check(d *directory, name string) error // of an entry's name

	asSource() end // the same endpoint, for reading
}

// perm returns the permissions of a file for its copy. Directories have them from when they are
// found.
func (a *Attributes) perm(f *endpoint.Info) fs.FileMode {
	if a.Chmod != nil {
		return a.Chmod(f.Mode).Perm()
	}
	return f.Mode.Perm()
}

// chmod changes the permissions of a directory of the source.
func (a *Attributes) chmod(dir endpoint.Info) endpoint.Info {
	if a.Chmod != nil && dir.HasMode {
		dir.Mode = fs.ModeDir | a.Chmod(dir.Mode)&(fs.ModePerm|endpoint.DirBits)
	}
	return dir
}

// preservesMode reports whether a copy gets its source's permissions without the umask. Streams
// have none, and some servers tell none.
func (a *Attributes) preservesMode(of *endpoint.Info) bool {
	return a.Preserve && !a.NoModes && of.HasMode
}

// tell says what a host does not set, unless that is not wanted anyway.
func (a *Attributes) tell(unset endpoint.Unset, say func(string)) {
	unset.Times, unset.Modes = unset.Times && !a.NoTimes, unset.Modes && !a.NoModes
	unset.Say(say)
}

// chown gives a copy the source's owner if Options.Owners is set.
func (o *Options) chown(to localfs.Owner, set func(uid, gid int) error) error {
	switch {
	case !o.Owners:
		return nil
	case !to.Known:
		return errNoOwner
	}
	return set(to.UID, to.GID)
}

// addOwner adds the source's owner to the attributes of a copy if Options.Owners is set.
func (o *Options) addOwner(set *usftp.NewAttrs, to localfs.Owner) error {
	return o.chown(to, func(uid, gid int) error {
		set.SetOwner, set.UID, set.GID = true, uid, gid
		return nil
	})
}

var errNoOwner = errors.New("the source's owner is not known")
