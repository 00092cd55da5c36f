package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/private/pools"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/wire"
)

// Remote returns an endpoint for a path on a host.
func Remote(host pool.Host, path string) Endpoint {
	return Endpoint{host: host.Name, path: path,
		newSource: func(j *job) (source, error) {
			e, err := newRemoteEnd(j, host)
			return &remoteSource{e}, err
		},
		newTarget: func(j *job) (target, error) {
			e, err := newRemoteEnd(j, host)
			if err != nil {
				return nil, err
			}
			return &remoteTarget{remoteEnd: e, placement: placement{e.host().Quirks(), &j.options.Attributes}}, nil
		}}
}

var errNoClient = errors.New("transfer: the Host has no Client")

// remoteEnd is common to sources and targets on a host.
type remoteEnd struct {
	job    *job
	client *usftp.Client // as the caller gave it
	link   *pool.Conn    // shared with the other end if both have the same client
	trip   time.Duration // how long the first stat took
}

func newRemoteEnd(j *job, host pool.Host) (*remoteEnd, error) {
	if host.Client == nil { // it would panic on a goroutine of ours
		return nil, errNoClient
	}
	e := &remoteEnd{job: j, client: host.Client}
	src := j.src
	if shared, ok := src.(*sharedSource); ok {
		src = shared.source
	}
	if other, ok := src.(*remoteSource); ok && other.client == host.Client {
		e.link = other.link
	} else {
		e.link = pool.NewConn(j.ctx, host, j.options.Retry)
	}
	return e, nil
}

// host returns the host with its current connection.
func (e *remoteEnd) host() pools.Host {
	host := e.link.Host()
	return pools.OfHost(&host)
}

func (e *remoteEnd) conn() *pool.Conn { return e.link }

func (e *remoteEnd) join(dir, name string) string { return path.Join(dir, name) }

func (e *remoteEnd) identity(name string) (host, path string, ok bool) {
	h := e.link.Host()
	return "host " + cmp.Or(h.Identity, h.Name), name, true
}

// over calls do for an entry of a tree, and again over a new connection if the connection was lost.
func (e *remoteEnd) over(name string, do func(client *usftp.Client, again bool) error) error {
	return e.link.Do(func(a pool.Attempt) {
		event := retried(a, e.job.doing()+" "+name, &Event{Size: -1})
		event.Source = name
		e.job.tell(event)
	}, do)
}

// ask is over for a question about a path.
func ask[T any](e *remoteEnd, name string,
	question func(*usftp.Client, string) (T, error)) (answer T, err error) {
	err = e.over(name, func(client *usftp.Client, _ bool) error {
		answer, err = question(client, name)
		return err
	})
	return answer, err
}

// stat stats a path. How long the first one takes is noted.
func (e *remoteEnd) stat(name string) (fs.FileInfo, error) {
	began := time.Now()
	info, err := ask(e, name, func(*usftp.Client, string) (fs.FileInfo, error) {
		return e.host().Stat(e.job.ctx, name)
	})
	if e.trip == 0 {
		e.trip = time.Since(began)
	}
	return info, err
}

func (e *remoteEnd) realPath(name string) (string, error) {
	return ask(e, name, (*usftp.Client).RealPath)
}

func (e *remoteEnd) lstat(name string) (f facts, err error) {
	info, err := ask(e, name, (*usftp.Client).Lstat)
	if err == nil {
		f = remoteFacts(info.Sys().(*usftp.FileStat))
	}
	return f, err
}

// mark knows no inode: SFTP has none. What the host calls the directory, whose it is and which file
// system it is on must do.
func (e *remoteEnd) mark(dir string) (string, error) {
	real, err := e.realPath(dir)
	if err != nil {
		return "", err
	}
	info, err := ask(e, dir, (*usftp.Client).Stat)
	if err != nil {
		return "", err
	}
	stat := info.Sys().(*usftp.FileStat)
	return fmt.Sprint(real, info.Mode().Type(), stat.UID, stat.GID, e.fileSystem(dir)), nil
}

// readRegular reads up to most bytes of a regular file. It follows no link.
func (e *remoteEnd) readRegular(name string, most int64) (data []byte, info fs.FileInfo,
	err error) {
	err = e.over(name, func(client *usftp.Client, _ bool) error {
		info, err = client.Lstat(name)
		if private.Untold(err) {
			info, err = private.OfClient(client).Look(name)
		}
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is %w", path.Base(name), errNotRegular)
		}
		f, err := client.OpenRead(name)
		if err != nil {
			return err
		}
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, most))
		return err
	})
	return data, info, err
}

var errNotRegular = errors.New("not a regular file")

func (e *remoteEnd) fileSystem(name string) (id [2]uint64) {
	client := e.link.Host().Client
	if _, known := client.HasExtension(wire.ExtStatVFS); !known {
		return id
	}
	if vfs, err := client.StatVFS(name); err == nil {
		id[0] = vfs.Fsid
	}
	return id
}

func (e *remoteEnd) touch(name string) (remove func() error, err error) {
	client := e.link.Host().Client
	remove = func() error {
		ctx, cancel := cleanupContext(e.job.ctx)
		defer cancel()
		return e.over(name, func(client *usftp.Client, _ bool) error {
			return client.WithContext(ctx).Remove(name)
		})
	}
	f, err := client.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		f.Close()
	case !pool.Lost(client):
		remove = nil
	}
	return remove, err
}

const (
	// largestSmall is the largest file sent in one piece, if packets can be that long.
	largestSmall = 256 << 10

	// unknownHandles is how many files may be open at once on a server that does not say how many
	// it allows.
	unknownHandles = 128
)

// limits asks the host what may be in progress at once. piece returns the size of a packet's data
// in the direction of the copy.
func (e *remoteEnd) limits(piece func(read, write int) int) (l limits, err error) {
	err = e.over(e.job.route.Source, func(client *usftp.Client, _ bool) error {
		limits, err := client.Limits()
		if err != nil {
			return err
		}
		read, write, err := private.OfClient(client).DataSizes()
		l.small = min(piece(read, write), largestSmall)
		l.handles, l.listings = unknownHandles, usualWalkers
		most := usualWalkers
		if t := e.job.tree; t != nil && t.sync != nil { // most directories have nothing to copy
			most = syncWalkers
		}
		if _, known := client.HasExtension(wire.ExtLimits); known {
			l.handles = 1 << 20
			if limits.MaxOpenHandles > 0 { // keep some for listings and other uses
				all := int64(min(limits.MaxOpenHandles, 1<<20))
				l.handles = max(1, all*3/4)
				l.listings = int(max(1, min(all-l.handles, int64(most))))
			}
		}
		return err
	})
	l.trip = max(e.trip, e.host().LoginTrip())
	return l, err
}
