package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/audit"
	"github.com/usftp/usftp/service/internal/store"
)

// usualStore returns the store's file if the configuration names none: in the directory that
// systemd gives a service for its state, or in the user's own.
func usualStore() (string, error) {
	dir := os.Getenv("STATE_DIRECTORY")
	if dir == "" {
		dir = os.Getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(dir) {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("no directory for the store (%w): set file in [store]", err)
			}
			dir = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(dir, "usftp")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", site.FileError("cannot make the directory for the store,", dir, err)
	}
	return filepath.Join(dir, "usftpd.db"), nil
}

// storeName returns the store's file or URL.
func (s *settings) storeName() (string, error) {
	if s.store != "" {
		return s.store, nil
	}
	return usualStore()
}

// openStore opens the store. If the configuration names none and the usual file cannot be created,
// as in a container without a place for it, the server goes without. One that is there and cannot be
// used may have disabled somebody.
func (s *service) openStore(ctx context.Context) error {
	needed := s.started.store != ""
	name, err := s.started.storeName()
	for _, one := range s.started.Users {
		if err == nil {
			err = keptFrom(&one, name)
		}
	}
	if err == nil && s.Check {
		var missing bool
		if missing, err = noStoreYet(name); missing {
			s.storeToCome = true
			s.MoreUsers = func(*site.Settings) []site.Account { return nil }
			return nil
		}
	}
	log := s.Log
	if s.Check { // which says itself what its end needs
		log = slog.New(slog.DiscardHandler)
	}
	if err == nil {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 {
			needed = true
		}
		s.store, err = store.Open(ctx, name, log)
	}
	switch {
	case err != nil && needed:
		return err
	case err != nil:
		s.Log.Warn("there is no store: bans and quota counts end with the server", "error", err)
		return nil
	}
	s.Shared, s.storeName = shared{s.store}, name
	s.MoreUsers = s.storedUsers
	s.store.OnUsers(func() {
		s.Refresh()
		if made := s.latest.Load(); made != nil { // before, nobody can have connected
			s.EndLogins(func(l sshd.Login) bool { return l.Gone && !made.admits(l.User) })
		}
	})
	return nil
}

// keptFrom returns an error if the store is in a directory of a user, who would see it. Whoever can
// write there could make another user.
func keptFrom(one *site.Account, store string) error {
	for _, root := range one.Roots() {
		if below(root, store) {
			return fmt.Errorf("the store %s would be in %s, which is served: set another file in "+
				"[store]", store, root)
		}
	}
	return nil
}

// below reports whether a file lies below a directory. The file may not exist yet.
func below(root, file string) bool {
	_, err := site.Reach(root)
	if err == nil {
		root, err = realPath(root)
	}
	if err != nil {
		return false // which is not served either
	}
	dir, err := realPath(filepath.Dir(file))
	if err != nil {
		return false
	}
	relative, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(relative)
}

func realPath(name string) (string, error) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// closeStore frees everything that this node holds, once nothing uses it any more.
func (s *service) closeStore() {
	if s.store != nil {
		if err := s.store.Close(); err != nil && !s.Check {
			s.Log.Warn("the store was not closed well", "error", err)
		}
	}
}

// shared adapts the store to the server.
type shared struct{ *store.Store }

func (s shared) Bans() sshd.Bans { return s.Store.Bans() }

// accountPatience is how long a start or reload waits for the account of a directory.
const accountPatience = 5 * time.Second

// Account returns the account of a root, which nodes share if its path is the same, or of a user's
// transfers.
func (s shared) Account(tree string, maxBytes, maxFiles int64) server.Account {
	ctx, cancel := context.WithTimeout(context.Background(), accountPatience)
	defer cancel()
	if absolute, err := filepath.Abs(tree); err == nil && !strings.Contains(tree, "://") {
		tree = absolute
	}
	return s.Store.Account(ctx, tree, maxBytes, maxFiles)
}

// storedUsers returns the users of the store.
func (s *service) storedUsers(made *site.Settings) (users []site.Account) {
	given, _ := made.Templates.(templates)
	for _, u := range s.store.Users() {
		one, err := storedUser(&u, given.groups, canBeAtomic)
		if err == nil {
			err = keptFrom(&one, s.storeName)
		}
		if err != nil {
			s.Log.Warn("a user is left out", "user", u.Name, "error", err)
			continue
		}
		one.Admission.Gone = func() bool { return s.store.Gone(u.Name) }
		if one.PasswordHash != "" {
			one.Renew = s.renewal(u, given.passwords)
		}
		users = append(users, one)
	}
	return users
}

// withStore runs a command on the store that a configuration names, with its audit trail, if any. A
// file that is not there is made only for what is to be stored: to whom it belongs, and where it is,
// may depend on who runs the command, and an empty one says that all is well.
func withStore(ctx context.Context, config string, stores bool,
	run func(s *store.Store, trail *audit.Trail) error) error {
	if config == "" {
		return errors.New("--config FILE is missing: it says where the store is")
	}
	made, err := readConfig(config)
	if err != nil {
		return err
	}
	name, err := made.storeName()
	if err != nil {
		return err
	}
	if missing, err := noStoreYet(name); err != nil {
		return err
	} else if missing && !stores {
		return fmt.Errorf("there is no store %s: start the server, or run this as its user, with "+
			"its environment", name)
	}
	s, err := store.Open(ctx, name, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := s.Err(); err != nil {
		s.Close()
		return err
	}
	var trail *audit.Trail
	if made.audit > 0 {
		trail = audit.New(s.Record)
	}
	return errors.Join(run(s, trail), s.Close())
}
