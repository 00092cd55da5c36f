package transfer

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filecopy"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/pool"
)

// An Endpoint is one end of a copy: a path on this machine, a path on a host, or a stream. See
// [Local], [Remote], [Reader] and [Writer].
type Endpoint struct {
	host, path string
	newSource  func(*job) (endpoint.Place, error)
	newTarget  func(*job) (target, error)
}

var (
	errNoSource = errors.New("the source of a copy is made by Local, Remote or Reader")
	errNoTarget = errors.New("the target of a copy is made by Local, Remote or Writer")
)

func (e Endpoint) from(j *job) (endpoint.Place, error) {
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
		newSource: func(*job) (endpoint.Place, error) { return endpoint.Local{}, nil },
		newTarget: func(*job) (target, error) { return localTarget{new(filecopy.LocalTarget)}, nil }}
}

// localTarget is a path on this machine.
type localTarget struct{ *filecopy.LocalTarget }

// Remote returns an endpoint for a path on a host.
func Remote(host pool.Host, path string) Endpoint {
	return Endpoint{host: host.Name, path: path,
		newSource: func(j *job) (endpoint.Place, error) {
			e, err := newHost(j, host)
			return &remoteSource{e, host.Client}, err
		},
		newTarget: func(j *job) (target, error) {
			e, err := newHost(j, host)
			if err != nil {
				return nil, err
			}
			return remoteTarget{&filecopy.HostTarget{Host: e}}, nil
		}}
}

// remoteSource and remoteTarget are a path on a host.
type (
	remoteSource struct {
		*endpoint.Host
		client *usftp.Client // as the caller gave it
	}
	remoteTarget struct{ *filecopy.HostTarget }
)

var errNoClient = errors.New("transfer: the Host has no Client")

// newHost returns a host with its connection, which both ends share if they have the same client.
func newHost(j *job, host pool.Host) (*endpoint.Host, error) {
	if host.Client == nil { // it would panic on a goroutine of ours
		return nil, errNoClient
	}
	src := j.src
	if shared, ok := src.(*sharedSource); ok {
		src = shared.Place
	}
	var link *pool.Conn
	if other, ok := src.(*remoteSource); ok && other.client == host.Client {
		link = other.Conn()
	} else {
		link = pool.NewConn(j.ctx, host, j.options.Retry)
	}
	// the connection may be lost while the host is asked about an entry
	return endpoint.NewHost(j.ctx, link, func(name string, a pool.Attempt) {
		event := j.retried(a, &Event{Size: -1})
		event.Source = name
		j.tell(event)
	}), nil
}

// Reader returns an endpoint that is read from r, which is not closed. Events and errors call it
// "-". If r has a method Len() int, as a *bytes.Reader has, that many bytes are expected.
func Reader(r io.Reader) Endpoint {
	return Endpoint{path: "-",
		newSource: func(*job) (endpoint.Place, error) { return endpoint.Stream{Reader: r}, nil }}
}

// Writer returns an endpoint that is written to w, which is not closed. Events and errors call it
// "-". A lost connection is replaced only if the source can be proved to be unchanged.
func Writer(w io.Writer) Endpoint {
	return Endpoint{path: "-",
		newTarget: func(*job) (target, error) {
			return writerTarget{&filecopy.WriterTarget{W: w}}, nil
		}}
}

// writerTarget is a stream. It holds no tree.
type writerTarget struct{ *filecopy.WriterTarget }

func (writerTarget) begin(*tree, endpoint.Info, func() error) (targetDir, error) {
	return targetDir{path: "-"}, endpoint.ErrStream
}

// A target is an endpoint that is written.
type target interface {
	filecopy.Target

	// begin resolves the target of a tree. Before it makes anything it calls inside, which fails if
	// the target lies in the source. After an error only the path is set.
	begin(of *tree, source endpoint.Info, inside func() error) (targetDir, error)
}

// ofPaths reports whether neither end is a stream.
func (j *job) ofPaths() bool {
	_, _, from := j.src.Identity(j.route.Source)
	_, _, to := j.dst.Identity(j.route.Target)
	return from && to
}

// resolved replaces the start of a path, up to the last "..", by its real path, so that from then
// on paths can be split and joined as text. For the system "link/.." is the parent of the link's
// target.
func resolved(e endpoint.Place, name string) (string, error) {
	n := throughParent(name)
	if n == 0 || e.Conn() == nil && runtime.GOOS == "windows" { // where ".." is text
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

// A targetDir is the directory that a tree is copied to, with everything below it.
type targetDir struct {
	path string
	endpoint.Root
	within string // the copy's name in the directory that was named as the target, or ""
	exists bool   // known to
	made   bool   // by begin
}

// begin makes the directory to copy to, if it does not exist, and opens it.
func (t localTarget) begin(of *tree, source endpoint.Info,
	inside func() error) (to targetDir, err error) {
	to.path = of.route.Target
	err = of.copies.CheckBase(of.base)
	if err == nil {
		err = of.notInside(source.Local)
	}
	if err == nil {
		err = inside()
	}
	if err != nil {
		return to, err
	}
	info, err := os.Stat(to.path)
	at := "."
	switch {
	case err == nil && !info.IsDir():
		return to, &fs.PathError{Op: "write", Path: to.path, Err: endpoint.ErrNotDirectory}
	case err == nil && of.base != ".":
		at = of.base
		to.path = filepath.Join(to.path, at)
	case err == nil:
		to.exists = true
	case !errors.Is(err, fs.ErrNotExist):
		return to, err
	default:
		of.leftovers.made.begin()
		if to.made, err = of.do.makeTop(to.path, source.Perm()|0o700); err != nil {
			return to, err
		}
		to.exists = to.made
	}
	var top *os.Root // nil if the target does not exist
	if info != nil || to.made {
		if top, err = os.OpenRoot(of.route.Target); err != nil {
			return to, err
		}
	}
	t.Root = endpoint.NewLocalRoot(top, at)
	t.Root.Quirks = t.Quirks()
	to.Root = of.do.root(t.Root)
	return to, nil
}

// notInside refuses to copy a local directory to itself or into a directory below it, and to sync
// it to one above it.
func (t *tree) notInside(source fs.FileInfo) error {
	if source == nil {
		return nil
	}
	target := t.route.Target
	info, err := os.Stat(filepath.Join(target, t.base))
	if err == nil && os.SameFile(info, source) {
		return t.rules.apart
	}
	there, err := os.Stat(target)
	if err != nil {
		target = filepath.Dir(target)
	}
	if liesIn(target, source) || t.rules.mutual && err == nil && liesIn(t.route.Source, there) {
		return t.rules.apart
	}
	return nil // if the target cannot be examined, making it will fail with the reason
}

// liesIn reports whether name leads to dir or below it.
func liesIn(name string, dir fs.FileInfo) bool {
	name, err := endpoint.Local{}.RealPath(name)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(name); err == nil && os.SameFile(info, dir) {
			return true
		}
		above := filepath.Dir(name)
		if above == name {
			return false
		}
		name = above
	}
}

func (t remoteTarget) begin(of *tree, _ endpoint.Info,
	inside func() error) (to targetDir, err error) {
	to.path = of.route.Target
	if err := of.copies.CheckBase(of.base); err != nil {
		return to, err
	}
	to.path = cmp.Or(to.path, ".")
	there, err := t.Stat(to.path)
	untold := private.Untold(err)
	switch {
	case err == nil && there.Mode.IsDir(), untold && (filecopy.MeansDirectory(to.path) ||
		strings.HasSuffix(to.path, "/") && !errors.Is(err, usftp.ErrSSHFxFailure)): // it is missing
		to.path = path.Join(to.path, of.base)
		to.exists = of.base == "."
	case err == nil:
		return to, &fs.PathError{Op: "write", Path: to.path, Err: endpoint.ErrNotDirectory}
	case !untold && !errors.Is(err, fs.ErrNotExist):
		return to, err
	}
	if err := inside(); err != nil {
		return to, err
	}
	t.Root = endpoint.NewHostRoot(t.Host, to.path)
	to.Root = of.do.root(t.Root)
	return to, nil
}

// openDir gives the owner all permissions on a directory, if it is still in its place, and returns
// the mode that the directory had. changed may be true even if openDir failed.
func (t *targetDir) openDir(dir string) (was fs.FileMode, changed bool, err error) {
	i, err := t.LookDir(dir)
	if err != nil || !i.HasMode || i.Mode&0o700 == 0o700 {
		return was, false, err
	}
	return i.Mode, true, t.setMode(dir, i.Mode|0o700)
}

// restoreDir gives a directory back the mode that openDir returned.
func (t *targetDir) restoreDir(dir string, mode fs.FileMode) error {
	_, err := t.LookDir(dir)
	if err == nil {
		err = t.setMode(dir, mode)
	}
	return err
}

func (t *targetDir) setMode(dir string, mode fs.FileMode) error {
	_, err := t.SetAttrs(dir, fs.ModeDir, false,
		usftp.NewAttrs{SetMode: true, Mode: mode &^ fs.ModeType})
	return err
}

// leave closes a directory and those above it after the walk: nothing else uses them.
func (t *targetDir) leave(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		t.Leave(dir)
	}
}
