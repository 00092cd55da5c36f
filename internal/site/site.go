// Package site is a running server, as usftp serve and usftpd have it: its listeners, who may log
// in and reach which files, the log, reloading on SIGHUP, and the end on a signal.
package site

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/server/sshd"
)

// A Site is a server. Its exported fields are set before Start, except where noted.
type Site struct {
	*ui.App

	// Read makes the settings, and makes them again for each reload.
	Read func() (*Settings, error)

	// KeyTypes are the types of the host keys to make if the settings name none.
	KeyTypes []string

	// Events, if not nil, gets the server's events. Read or Prepare may set it.
	Events func(server.Event)

	// Gate, if not nil, is asked before changes. Prepare may set it.
	Gate server.Gate

	// Accept, if not nil, wraps each listener.
	Accept func(net.Listener) net.Listener

	// Prepare, if not nil, is called by Start once there is a log, and before the settings are
	// used. It may set the next eight.
	Prepare func() error

	// Open, if not nil, opens a root that is no directory; for directories it returns nil. It is
	// called once for each root, unless it fails.
	Open func(root string) (server.FS, error)

	// Guard, if not nil, returns the files a user is to see in place of a root's. The root belongs
	// to the folder with this path.
	Guard func(user, folder string, files server.FS) (server.FS, error)

	// Directory opens a root that is a directory. The default is osfs.New.
	Directory func(root string) (*osfs.FS, error)

	// Shared, if not nil, is the state that the server shares with others.
	Shared Shared

	// Check makes Start only find out whether the server would start properly: it makes no host
	// keys, and fails if a user would be left out, or their login would fail.
	Check bool

	// MoreUsers, if not nil, returns users besides those of the settings, which take precedence. A
	// user with a mistake is left out, with a warning. Refresh asks again.
	MoreUsers func(made *Settings) []Account

	// Lenient lets the server start even if directories of some users cannot be opened, and reload
	// even if other storage cannot be. Logins of these users fail until it can be.
	Lenient bool

	// Second checks the codes of users with a second factor.
	Second func(conn ssh.ConnMetadata, code string) error

	// Restarts makes SIGUSR2 start the program again, which takes over the listening sockets.
	Restarts bool

	// More has further lines for Run to print. It may be set after Start.
	More string

	// Log is made by Start.
	Log *slog.Logger

	refresh  chan struct{}
	hangups  chan struct{} // SIGHUP has asked to read the settings again
	level    slog.LevelVar
	started  *Settings // the first settings, of which some cannot change
	settings *Settings // in effect now

	sshd      *sshd.Server
	directory *sshd.Directory
	served    atomic.Pointer[map[string]Served] // by users
	opening   sync.Mutex                        // for trees; held while storage is asked
	trees     map[string]*tree
	left      map[string]*server.Quota // by roots of guests who are forgotten
	counting  sync.Mutex               // for periods; held for a moment
	periods   map[periodic]*periodAccount
	letting   sync.Mutex       // for guests; never held while waiting for storage
	coming    sync.RWMutex     // read-locked while a guest comes in, locked to forget guests
	guests    map[string]guest // by users whom Outside has let in

	mostGuests int // in tests

	sockets    sockets
	recounting sync.WaitGroup // counting of quotas after reloads
	reloaded   chan struct{}  // closed by the next reload; nil before the first
}

// Shared is the state that several servers share.
type Shared interface {
	sshd.Limits
	Bans() sshd.Bans
	Account(tree string, maxBytes, maxFiles int64) server.Account
}

// Settings are a server's configuration; each reload makes new ones.
type Settings struct {
	SSHD        sshd.Config // without the host keys, the logger and the functions that authenticate
	Listen      []string
	Grace       time.Duration
	LogFormat   string
	LogLevel    slog.Level
	HostKeys    []string // files
	Users       []Account
	Authorities *sshd.Authorities
	Revoked     *sshd.RevocationList
	Warnings    []string
	Templates   any     // for MoreUsers
	Outside     Outside // nil if nothing else knows passwords
	InEffect    func()  // called, unless nil, once nothing can refuse the settings any more

	// Fixed has the other settings that need a restart: by names for people, as texts to compare.
	Fixed map[string]string
}

// An Account is a user whose directory has not been opened yet.
type Account struct {
	sshd.User
	Root         string
	Folders      []Folder
	RefusedNames []string
	MakeRoot     bool     // at login, if it is missing
	Quota        [2]int64 // bytes and files
	Transfers    Transfers
	PasswordHash string
	Group        string // whose settings the user has, or ""
	SecondFactor bool   // a code is asked for after a key or a password
	Problem      error  // the mistake that is known, with its line
}

// Start makes the server, but does not listen yet.
func (s *Site) Start() error {
	var err error
	s.hangups = make(chan struct{}, 1)
	if !s.Check {
		s.reloadOnHangup(0) // a start may take long, and is not ended by it
	}
	if s.started, err = s.read(); err != nil {
		return err
	}
	s.Log = slog.New(NewHandler(s.Console, s.started.LogFormat, &s.level))
	s.level.Set(s.started.LogLevel)
	s.refresh = make(chan struct{}, 1)
	if err := s.sockets.inherit(); err != nil {
		return err
	}
	if s.Prepare != nil {
		if err := s.Prepare(); err != nil {
			return err
		}
	}
	return s.apply(s.started)
}

// read makes settings, and fills in the defaults.
func (s *Site) read() (*Settings, error) {
	made, err := s.Read()
	if err != nil {
		return nil, err
	}
	if len(made.Listen) == 0 {
		made.Listen = []string{defaultListen}
	}
	if len(made.HostKeys) == 0 {
		if made.HostKeys, err = defaultHostKeys(s.KeyTypes); err != nil {
			return nil, err
		}
	}
	for _, address := range made.Listen {
		err = errors.Join(err, CheckAddress(address))
	}
	return made, err
}

// apply puts settings into effect, at the start or after a reload.
func (s *Site) apply(made *Settings) error {
	accounts, served, keys, err := s.accounts(made)
	if err != nil {
		return err
	}
	config := made.SSHD
	config.Logger, config.Events, config.Gate = s.Log, s.Events, s.Gate
	if s.Shared != nil {
		config.Bans = s.Shared.Bans()
	}
	if config.HostKeys, err = loadHostKeys(made.HostKeys, !s.Check); err != nil {
		return err
	}
	directory, err := sshd.NewDirectory(accounts)
	if err != nil {
		return err
	}
	first := s.directory == nil
	if first {
		s.directory = directory
	}
	if keys {
		config.PublicKey = s.directory.PublicKey
	}
	if accounts.Passwords != nil || s.MoreUsers != nil || accounts.Outside != nil {
		config.Password = s.directory.Password
	}
	if first {
		s.sshd, err = sshd.New(config)
	} else {
		err = s.sshd.Reload(config)
	}
	if err != nil {
		return err
	}
	s.served.Store(&served)
	if !first { // nothing left can be refused
		err = s.directory.Set(accounts)
	}
	if err != nil {
		return err
	}
	s.settings = made
	if made.InEffect != nil {
		made.InEffect()
	}
	s.level.Set(made.LogLevel)
	for _, warning := range made.Warnings {
		s.Log.Warn("a line of authorized_keys is ignored: " + warning)
	}
	return nil
}

// changedSince names the settings that differ and cannot change without a restart.
func changedSince(started, made *Settings) (names []string) {
	was, is := started.fixed(), made.fixed()
	for name := range is {
		if is[name] != was[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *Settings) fixed() map[string]string {
	all := map[string]string{"addresses": fmt.Sprint(s.Listen), "grace": s.Grace.String(),
		"the log format": s.LogFormat}
	maps.Copy(all, s.Fixed)
	return all
}

// accounts opens the users' files. keys reports whether keys or certificates let anybody in.
func (s *Site) accounts(made *Settings) (accounts sshd.Accounts, served map[string]Served,
	keys bool, err error) {
	accounts.Authorities, accounts.Revoked = made.Authorities, made.Revoked
	keys = made.Authorities != nil || s.MoreUsers != nil
	if s.Shared != nil {
		accounts.Limits = s.Shared
	}
	accounts.Outside = s.outside(made.Outside)
	var passwords strings.Builder
	names := map[string]bool{}
	served = map[string]Served{}
	add := func(one Account, strict bool) error {
		account := one
		if err := s.openFor(&one, strict); err != nil {
			return err
		}
		served[one.Name] = s.servedTo(&account, !names[one.Name])
		keys = keys || one.Keys != nil
		if one.PasswordHash != "" {
			fmt.Fprintf(&passwords, "%s:%s\n", one.Name, one.PasswordHash)
		}
		accounts.Users = append(accounts.Users, one.User)
		return nil
	}
	for _, one := range made.Users {
		names[one.Name] = true
		if wrong := add(one, true); wrong != nil && s.Check {
			err = errors.Join(err, wrong)
		} else if wrong != nil {
			return accounts, nil, false, wrong
		}
	}
	if s.MoreUsers != nil {
		for _, one := range s.MoreUsers(made) {
			if names[one.Name] {
				s.Log.Warn("the configuration has a user of the same name", "user", one.Name)
			} else if wrong := add(one, false); wrong != nil && s.Check {
				err = errors.Join(err, wrong)
			} else if wrong != nil {
				s.Log.Warn("a user is left out", "user", one.Name, "error", wrong)
			}
		}
	}
	if err != nil {
		return accounts, nil, false, err
	}
	if passwords.Len() > 0 {
		accounts.Passwords, err = sshd.ParsePasswords("passwords", []byte(passwords.String()))
	}
	return accounts, served, keys, err
}

// Served returns the files each user may reach now. The map must not be changed.
func (s *Site) Served() map[string]Served {
	if served := s.served.Load(); served != nil {
		return *served
	}
	return nil
}

// Logins returns the connections that have logged in.
func (s *Site) Logins() []sshd.Login { return s.sshd.Logins() }

// EndLogins ends the logins for which end returns true, and returns how many.
func (s *Site) EndLogins(end func(sshd.Login) bool) int { return s.sshd.EndLogins(end) }

// Refresh soon puts the users that MoreUsers returns now into effect.
func (s *Site) Refresh() {
	select {
	case s.refresh <- struct{}{}:
	default:
	}
}
