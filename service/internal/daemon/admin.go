package daemon

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/status"
)

type adminTable struct {
	Token       string `toml:"token"`
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
}

// admin has the settings of the status page, and its certificate.
type admin struct {
	status.Access
	certificate, key string // files
	at               string // its place in the configuration
}

// shortestToken is the length of a token that cannot be guessed.
const shortestToken = 16

// admin reads the files that the table names, so that mistakes are found here.
func (f *configFile) admin(table *adminTable) error {
	if table == nil {
		return nil
	}
	made := &admin{certificate: f.path(table.Certificate), key: f.path(table.Key),
		at: fmt.Sprintf("%s:%d", f.name, f.lines["admin"])}
	if table.Token != "" {
		name := f.path(table.Token)
		data, err := f.readSecret(name)
		if made.Token = bytes.TrimSpace(data); err == nil && len(made.Token) < shortestToken {
			err = fmt.Errorf("%s: a token of fewer than %d bytes can be guessed", name,
				shortestToken)
		}
		if err != nil {
			return f.wrong("", "admin.token", err)
		}
	}
	if (made.certificate == "") != (made.key == "") {
		return f.wrong("", "admin.certificate", errors.New("certificate and key come together"))
	}
	if made.certificate != "" {
		if err := f.readableByOthers(made.key); err != nil {
			return f.wrong("", "admin.key", err)
		}
		if _, err := tls.LoadX509KeyPair(made.certificate, made.key); err != nil {
			return f.wrong("", "admin.certificate", err)
		}
		made.TLS = true
	}
	f.made.admin = made
	return nil
}

// checkAdmin checks that the status page has an address, and a token if others can reach it.
func (made *settings) checkAdmin() error {
	if made.admin == nil {
		return nil
	}
	host, _, err := net.SplitHostPort(made.metrics)
	switch {
	case made.metrics == "":
		return fmt.Errorf("%s: admin: the page needs an address: set metrics, or use --metrics",
			made.admin.at)
	case err == nil && made.admin.Token == nil && !isLoopback(host):
		return fmt.Errorf("%s: admin: the page would be on %s, which others can reach: set token",
			made.admin.at, made.metrics)
	}
	return nil
}

func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || address != nil && address.IsLoopback()
}

// tls returns the configuration for the certificate, which is read again when its file changes, as
// it does every other month.
func (a *admin) tls() *tls.Config {
	var mu sync.Mutex
	var read time.Time
	var pair *tls.Certificate
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		info, err := os.Stat(a.certificate)
		if err == nil && (pair == nil || !info.ModTime().Equal(read)) {
			var next tls.Certificate
			if next, err = tls.LoadX509KeyPair(a.certificate, a.key); err == nil {
				pair, read = &next, info.ModTime()
			}
		}
		if pair == nil {
			return nil, err
		}
		return pair, nil // the old one, if the new one is not complete yet
	}}
}

// useAdmin sets up the status page.
func (s *service) useAdmin() {
	if s.started.admin == nil {
		return
	}
	source := status.Source{Store: s.store, Log: s.Log, Tracker: status.NewTracker(),
		Logins: s.Logins, EndLogins: s.EndLogins, Users: s.shownUsers, Outsiders: s.shownOutsiders,
		Outsider: s.outsider, Done: s.administered}
	for _, hook := range s.started.hooks {
		if hook.On[0] != hooks.Accept {
			source.Hooks = append(source.Hooks, hook.Name)
		}
	}
	s.subscribe(source.Tracker.Event)
	s.board = status.NewBoard(source)
}

// administered logs an action on the status page, and records it.
func (s *service) administered(remote, what, user string, err error) {
	log := s.Log.With("remote", remote, "what", what)
	if err != nil {
		log.Warn("not administered", "error", err)
	} else {
		log.Info("administered")
	}
	if s.trail != nil {
		s.trail.Admin(remote, what, user, err)
	}
}

// shownUsers returns the users of the configuration and of the store.
func (s *service) shownUsers() (all []status.User) {
	served, stored := s.Served(), map[string]bool{}
	show := func(name string, u status.User, one site.Served) {
		all = append(all, shownUser(name, u, one))
	}
	if s.store != nil {
		for _, u := range s.store.Users() {
			if one, ok := served[u.Name]; !ok || one.More {
				stored[u.Name] = true
				show(u.Name, status.User{Root: u.Root, Group: u.Group, Stored: true,
					Disabled: u.Disabled, Outside: u.Outsider()}, one)
			}
		}
	}
	for name, one := range served {
		if !stored[name] {
			show(name, status.User{}, one)
		}
	}
	return all
}

// shownUser returns a user with all known facts about the account.
func shownUser(name string, u status.User, one site.Served) status.User {
	u.Name, u.Root, u.Group = name, cmp.Or(one.Root, u.Root), cmp.Or(one.Group, u.Group)
	u.MaxBytes, u.MaxFiles = one.Limits[0], one.Limits[1]
	if one.Quota != nil {
		u.Bytes, u.Files = one.Quota.Usage()
	}
	if one.Moved != nil {
		up, down := one.Moved()
		u.Sent, u.MaxSent = up.Bytes, up.MaxBytes
		u.Fetched, u.MaxFetched = down.Bytes, down.MaxBytes
	}
	return u
}

// shownOutsiders returns the users in no list who have logged in on this node.
func (s *service) shownOutsiders() (all []status.User) {
	for name, one := range s.Guests() {
		all = append(all, shownUser(name, status.User{Outside: true}, one))
	}
	return all
}

// outsider calls settings.outsider on the settings in effect.
func (s *service) outsider(name string) bool {
	made := s.latest.Load()
	return made != nil && made.outsider(name)
}

// describeAdmin returns a text that differs if the settings do.
func describeAdmin(a *admin) string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf("%+v", *a)
}
