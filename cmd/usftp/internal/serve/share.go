package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
)

// A share is a directory served to one user.
type share struct {
	flags    *flags
	dir      string
	password string // the temporary password, once generated
	greeted  bool   // another password could no longer be announced
}

// greeting returns the line with the password, if there is one.
func (s *share) greeting() string {
	s.greeted = true
	if s.password == "" {
		return ""
	}
	return fmt.Sprintf("password      %s (until the server ends)\n", s.password)
}

// settings returns the directory to serve, its user and its limits.
func (s *share) settings() (*site.Settings, error) {
	umask, err := site.ParseUmask(s.flags.umask)
	if err != nil {
		return nil, err
	}
	one := site.Account{Root: s.dir}
	one.Policy = server.Policy{ReadOnly: s.flags.readOnly, Allowed: s.flags.allow,
		Denied: s.flags.deny, Umask: umask}
	if one.Name = s.flags.user; one.Name == "" {
		if one.Name, err = callersName(); err != nil {
			return nil, err
		}
	}
	made := &site.Settings{SSHD: sshd.Config{Compress: s.flags.compress}}
	one.Keys, err = s.authorizedKeys()
	if err != nil {
		return nil, err
	}
	if one.Keys != nil {
		made.Warnings = one.Keys.Warnings
	} else if s.password == "" {
		s.password = rand.Text()
	}
	if s.password != "" { // also if there are keys by now: it has been promised
		// The password has 128 random bits, so a slow hash would gain nothing.
		hash, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost)
		if err != nil {
			return nil, err
		}
		one.PasswordHash = string(hash)
	}
	made.Users = []site.Account{one}
	s.flags.Override(made)
	return made, nil
}

// callersName returns the name of the user who runs this; on Windows without the domain.
func callersName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("the user's name is not known: %w; give one with --user", err)
	}
	return u.Username[strings.LastIndex(u.Username, `\`)+1:], nil
}

// authorizedKeys returns the keys that --authorized-keys selects; nil for a temporary password.
func (s *share) authorizedKeys() (*sshd.AuthorizedKeys, error) {
	name := s.flags.authorizedKeys
	own := name == ""
	if own {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, nil
		}
		name = filepath.Join(home, ".ssh", "authorized_keys")
	} else if name == "none" {
		return nil, nil
	}
	data, err := os.ReadFile(name)
	if err != nil && !own {
		return nil, site.FileError("cannot read", name, err)
	}
	if err == nil && !s.flags.noStrictModes {
		if err := sshd.StrictModes(name); err != nil {
			return nil, fmt.Errorf("%w, or give --no-strict-modes", err)
		}
	}
	keys := sshd.ParseAuthorizedKeys(name, data)
	switch {
	case keys.Len() > 0:
		return keys, nil
	case own && (s.password != "" || !s.greeted):
		return nil, nil
	}
	return nil, errors.New(strings.Join(append([]string{"there is no usable key in " + name},
		keys.Warnings...), "; "))
}
