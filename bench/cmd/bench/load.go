package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/servers"
)

// load is many clients in this process, each with a connection of its own.
type load struct {
	row    rows.SessionRow
	server *servers.Server

	mu      sync.Mutex
	clients []*visitor // still there
	failed  error      // the first failure
}

type visitor struct {
	conn   *ssh.Client
	client *usftp.Client
}

func newLoad(row rows.SessionRow, server *servers.Server) *load {
	return &load{row: row, server: server}
}

// run has all the sessions do their work. Files begin to move when all who move one have come.
func (l *load) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { l.leave() }) // wakes those who wait for the server
	defer stop()
	var all, here sync.WaitGroup
	here.Add(l.row.Sessions)
	places := make(chan struct{}, l.row.Together)
	for i := range l.row.Sessions {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			v, err := l.come()
			here.Done()
			if err == nil && l.row.Work != rows.Visits {
				here.Wait()
			}
			if err == nil {
				err = errors.Join(l.work(v, i), ctx.Err())
			}
			if err != nil {
				l.fail(fmt.Errorf("session %d: %w", i, err))
			}
		})
	}
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

func (l *load) come() (*visitor, error) {
	conn, err := l.server.Dial()
	if err != nil {
		return nil, err
	}
	client, err := usftp.NewClient(conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	v := &visitor{conn, client}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients = append(l.clients, v)
	return v, nil
}

func (l *load) work(v *visitor, i int) error {
	switch l.row.Work {
	case rows.Downloads:
		f, err := v.client.Open(l.server.Root + "/source")
		if err != nil {
			return err
		}
		n, err := f.WriteTo(io.Discard)
		if err == nil && n != l.row.Bytes {
			err = fmt.Errorf("%d bytes instead of %d", n, l.row.Bytes)
		}
		return errors.Join(err, f.Close())
	case rows.Uploads:
		f, err := v.client.Create(fmt.Sprintf("%s/target%d", l.server.Root, i))
		if err != nil {
			return err
		}
		_, err = f.ReadFrom(io.LimitReader(zeros{}, l.row.Bytes))
		return errors.Join(err, f.Close())
	case rows.Idles:
		return l.list(v)
	default:
		return errors.Join(l.list(v), l.part(v))
	}
}

func (l *load) list(v *visitor) error {
	names, err := v.client.ReadDir(l.server.Root + "/")
	if err == nil && len(names) != 1 {
		err = fmt.Errorf("%d names instead of one", len(names))
	}
	return err
}

// part ends a session.
func (l *load) part(v *visitor) error {
	l.mu.Lock()
	l.clients = slices.DeleteFunc(l.clients, func(other *visitor) bool { return other == v })
	l.mu.Unlock()
	return v.leave()
}

// leave ends the sessions that are there.
func (l *load) leave() (err error) {
	l.mu.Lock()
	clients := l.clients
	l.clients = nil
	l.mu.Unlock()
	for _, v := range clients {
		err = errors.Join(err, v.leave())
	}
	return err
}

func (v *visitor) leave() error { return errors.Join(v.client.Close(), v.conn.Close()) }

// zeros is a source without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
