package store

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/usftp/usftp/server/sshd"
)

// channel is where nodes notify each other of changes. SQLite has no such thing: there each node
// looks every second.
const channel = "usftpd"

const usersNotice, ordersNotice = "users", "orders"

// notify notifies the other nodes once the transaction is committed.
func (t tx) notify(what string) error {
	if t.db.postgres == "" {
		return nil
	}
	return t.run(`SELECT pg_notify($1, $2)`, channel, what)
}

// listen handles the notices of other nodes until ctx ends.
func (s *Store) listen(ctx context.Context) {
	again := time.NewTicker(s.times.tick)
	defer again.Stop()
	for ctx.Err() == nil {
		s.listenOnce(ctx)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

func (s *Store) listenOnce(ctx context.Context) error {
	config := s.db.config.Copy()
	if err := s.db.usePassword(ctx, config); err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-s.db.left:
			stop()
		case <-ctx.Done():
		}
	}()
	// changes from before
	s.bans.look(ctx)
	s.users.look(ctx)
	for {
		said, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		s.heard(ctx, said.Payload)
	}
}

// heard handles a notice: the users have changed, there are orders, or a source is banned for so
// many ms.
func (s *Store) heard(ctx context.Context, notice string) {
	switch notice {
	case usersNotice:
		s.users.look(ctx)
		return
	case ordersNotice:
		s.told.obey(ctx, s)
		return
	}
	at := max(strings.LastIndexByte(notice, ' '), 0)
	source, err := sshd.ParseSource(notice[:at])
	ms, wrong := strconv.ParseInt(strings.TrimSpace(notice[at:]), 10, 64)
	if err == nil && wrong == nil {
		s.bans.set(source, time.Duration(ms)*time.Millisecond)
	}
}
