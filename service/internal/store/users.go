package store

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// A User may log in on every node. A limit of 0 means none. In JSON, fields have the names of the
// configuration's settings.
type User struct {
	Name       string   `json:"name"`
	Root       string   `json:"root,omitempty"`  // "" for the group's
	Group      string   `json:"group,omitempty"` // of the configuration, or ""
	Keys       []string `json:"keys,omitempty"`  // lines of authorized_keys
	Password   string   `json:"-"`               // its hash, or ""
	Disabled   bool     `json:"disabled,omitempty"`
	ReadOnly   bool     `json:"read_only,omitempty"`
	QuotaBytes int64    `json:"quota_bytes,omitempty"`
	QuotaFiles int64    `json:"quota_files,omitempty"`
	Bandwidth  int64    `json:"bandwidth,omitempty"`

	// Up and Down are the bandwidth in one direction, instead of Bandwidth.
	Up   int64 `json:"bandwidth_up,omitempty"`
	Down int64 `json:"bandwidth_down,omitempty"`

	Sessions  int64    `json:"sessions,omitempty"`
	Expires   string   `json:"expires,omitempty"`    // the last day, as in 2027-01-31, or ""
	AllowFrom []string `json:"allow_from,omitempty"` // networks

	SecondFactor bool `json:"-"` // a code is asked for

	// PasswordSet is when the password was set, by the database's clock; zero if it must be changed.
	// PutUser takes any other value for now.
	PasswordSet time.Time `json:"password_set,omitzero"`
}

// Outsider reports whether the entry only disables a user who is defined outside the store.
func (u *User) Outsider() bool {
	return u.Disabled && u.Root == "" && u.Group == "" && u.Password == "" && len(u.Keys) == 0
}

// ErrNoUser is the error for a user whom the store does not have.
var ErrNoUser = errors.New("the store has no such user")

// userList is this node's copy of the users. While the store is down it is used for ten minutes: a
// user may have been removed since.
type userList struct {
	store *Store

	fetching sync.Mutex // one at a time, so that the latest list stays

	mu      sync.Mutex
	list    []User
	at      map[string]int // in list, by name
	seen    int64          // the number of the change
	known   bool
	changed func()
}

// Users returns the users as this node knows them.
func (s *Store) Users() []User {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	return slices.Clone(s.users.list)
}

// User returns a user as this node knows them.
func (s *Store) User(name string) (u User, there bool) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	i, there := s.users.at[name]
	if !there {
		return u, false
	}
	return s.users.list[i], true
}

// Gone reports whether a user has been disabled or removed, as far as this node knows.
func (s *Store) Gone(name string) bool {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	i, there := s.users.at[name]
	return there && s.users.list[i].Disabled || !there && s.users.known
}

// KnowsUsers reports whether Users returns the store's users, and not none because the store has
// been down for too long.
func (s *Store) KnowsUsers() bool {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	return s.users.known
}

// OnUsers sets a function that is called whenever the result of Users changes.
func (s *Store) OnUsers(changed func()) {
	s.users.mu.Lock()
	defer s.users.mu.Unlock()
	s.users.changed = changed
}

// look reads the users if they have changed.
func (u *userList) look(ctx context.Context) error {
	changed := false
	err := u.store.do(ctx, func(t tx) error {
		is, err := u.fetch(t)
		changed = changed || is // also if an attempt before could not commit
		return err
	})
	if changed {
		u.tell()
	}
	return err
}

// read works like look while the store still counts as down, and tells nobody of changes.
func (u *userList) read(ctx context.Context) error {
	return u.store.db.do(ctx, func(t tx) error {
		_, err := u.fetch(t)
		return err
	})
}

func (u *userList) fetch(t tx) (changed bool, err error) {
	u.fetching.Lock()
	defer u.fetching.Unlock()
	var now int64
	if _, err := t.one(`SELECT n FROM changes WHERE topic = 'users'`, nil, &now); err != nil {
		return false, err
	}
	u.mu.Lock()
	same := u.known && u.seen == now
	u.mu.Unlock()
	if same {
		return false, nil
	}
	list, err := listUsers(t)
	if err != nil {
		return false, err
	}
	at := make(map[string]int, len(list))
	for i := range list {
		at[list[i].Name] = i
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list, u.at, u.seen, u.known = list, at, now, true
	return true, nil
}

func (u *userList) tell() {
	u.mu.Lock()
	changed := u.changed
	u.mu.Unlock()
	if changed != nil {
		changed()
	}
}

// expire drops the users of a store that has been down for too long.
func (u *userList) expire(down time.Duration) {
	u.mu.Lock()
	expired := u.known && down > u.store.times.stale
	if expired {
		u.list, u.at, u.known = nil, nil, false
	}
	u.mu.Unlock()
	if expired {
		u.store.log.Error("the store has been down for too long; its users are not let in",
			"seconds", int(down.Seconds()))
		u.tell()
	}
}

func listUsers(t tx) (list []User, err error) {
	var u User
	var keys, networks string
	var disabled, readOnly, second, set int64
	err = t.each(`SELECT name, root, keys, password, disabled, read_only, quota_bytes, quota_files,
		bandwidth, sessions, user_group, bandwidth_up, bandwidth_down, expires, allow_from,
		second_factor, password_set
		FROM users ORDER BY name`, nil, []any{&u.Name, &u.Root, &keys,
		&u.Password, &disabled, &readOnly, &u.QuotaBytes, &u.QuotaFiles, &u.Bandwidth,
		&u.Sessions, &u.Group, &u.Up, &u.Down, &u.Expires, &networks, &second, &set}, func() {
		one := u
		if set > 0 {
			one.PasswordSet = time.UnixMilli(set)
		}
		one.Disabled, one.ReadOnly, one.SecondFactor = disabled != 0, readOnly != 0, second != 0
		if keys != "" {
			one.Keys = strings.Split(keys, "\n")
		}
		one.AllowFrom = strings.Fields(networks)
		list = append(list, one)
	})
	return list, err
}

// PutUser adds a user; replace allows it to replace one of that name, and the user stays disabled
// if that one was.
func (s *Store) PutUser(ctx context.Context, u User, replace bool) error {
	return s.change(ctx, func(t tx) (rows int64, err error) {
		disabled := int64(0)
		if replace {
			if _, err := t.one(`DELETE FROM users WHERE name = $1 RETURNING disabled`,
				[]any{u.Name}, &disabled); err != nil {
				return 0, err
			}
		}
		rows, err = t.exec(`INSERT INTO users (name, root, keys, password, disabled, read_only,
			quota_bytes, quota_files, bandwidth, sessions, user_group, bandwidth_up,
			bandwidth_down, expires, allow_from, second_factor, password_set)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
			@now * $17)
			ON CONFLICT (name) DO NOTHING`,
			u.Name, u.Root, strings.Join(u.Keys, "\n"), u.Password, max(disabled, number(u.Disabled)),
			number(u.ReadOnly), u.QuotaBytes, u.QuotaFiles, u.Bandwidth, u.Sessions,
			u.Group, u.Up, u.Down, u.Expires, strings.Join(u.AllowFrom, " "),
			number(u.SecondFactor), number(!u.PasswordSet.IsZero()))
		if err == nil && rows == 0 {
			err = refusal{errors.New("there is a user of that name; --replace replaces all of its settings")}
		}
		return rows, err
	})
}

// DisableUser disables a user, who need not be in the store if outsider is set.
func (s *Store) DisableUser(ctx context.Context, name string, outsider bool) error {
	return s.change(ctx, func(t tx) (int64, error) {
		rows, err := t.exec(`UPDATE users SET disabled = 1 WHERE name = $1`, name)
		if err != nil || rows > 0 || !outsider {
			return rows, err
		}
		return t.exec(`INSERT INTO users (name, root, keys, password, disabled, read_only,
			quota_bytes, quota_files, bandwidth, sessions)
			VALUES ($1, '', '', '', 1, 0, 0, 0, 0, 0)
			ON CONFLICT (name) DO UPDATE SET disabled = 1`, name)
	})
}

// EnableUser enables a user again. An outsider needs no row here.
func (s *Store) EnableUser(ctx context.Context, name string) error {
	return s.change(ctx, func(t tx) (int64, error) {
		if rows, err := t.exec(`DELETE FROM users WHERE name = $1 AND disabled = 1 AND root = ''
			AND user_group = '' AND password = '' AND keys = ''`, name); err != nil || rows > 0 {
			return rows, err
		}
		return t.exec(`UPDATE users SET disabled = 0 WHERE name = $1`, name)
	})
}

// ExpirePassword makes a user change the password at the next login.
func (s *Store) ExpirePassword(ctx context.Context, name string) error {
	return s.change(ctx, func(t tx) (int64, error) {
		return t.exec(`UPDATE users SET password_set = 0 WHERE name = $1`, name)
	})
}

// ErrPasswordChanged is the error of a change to a password that was changed in the meantime.
var ErrPasswordChanged = errors.New("the password has been changed in the meantime")

// ChangePassword replaces a password's hash by another.
func (s *Store) ChangePassword(ctx context.Context, name, old, fresh string) error {
	return s.change(ctx, func(t tx) (int64, error) {
		rows, err := t.exec(`UPDATE users SET password = $3, password_set = @now
			WHERE name = $1 AND password = $2`, name, old, fresh)
		if err == nil && rows == 0 {
			err = refusal{ErrPasswordChanged}
		}
		return rows, err
	})
}

// RemoveUser removes a user, and leaves the files alone.
func (s *Store) RemoveUser(ctx context.Context, name string) error {
	return s.change(ctx, func(t tx) (int64, error) {
		return t.exec(`DELETE FROM users WHERE name = $1`, name)
	})
}

// SessionsOf returns how many sessions of a user run on all nodes.
func (s *Store) SessionsOf(ctx context.Context, name string) (n int64, err error) {
	err = s.doOne(ctx, func(t tx) error {
		_, err := t.one(`SELECT CAST(coalesce(sum(used), 0) AS BIGINT) FROM sessions
			WHERE name = $1`, []any{name}, &n)
		return err
	})
	return n, err
}

// change changes a user and tells all nodes. This one knows when it returns.
func (s *Store) change(ctx context.Context, run func(t tx) (rows int64, err error)) error {
	err := s.do(ctx, func(t tx) error {
		rows, err := run(t)
		if err != nil {
			return err
		}
		if rows == 0 {
			return refusal{ErrNoUser}
		}
		// Not only one more: a server that lacks the last changes must come to other numbers.
		if err := t.run(`UPDATE changes SET n = CASE WHEN n < @now THEN @now ELSE n + 1 END
			WHERE topic = 'users'`); err != nil {
			return err
		}
		return t.notify(usersNotice)
	})
	if err == nil { // even if whoever asked has left
		s.users.look(context.WithoutCancel(ctx))
	}
	return plainly(err)
}
