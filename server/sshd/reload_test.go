package sshd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

func TestShutdownLetsSessionsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		idle, busy := mustConnect(t, s), mustConnect(t, s)
		channel, err := sftp(busy)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		idle.Wait() // is closed at once
		if _, err := sftp(busy); err == nil {
			t.Error("a new session began")
		}
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a new connection began")
		}
		channel.Write(wire.PathRequest{Type: wire.TypeRealpath, Path: "/"}.Append(nil, 1))
		if _, err := receive(channel); err != nil {
			t.Errorf("the session that ran: %v", err)
		}
		channel.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		busy.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
		client := mustConnect(t, s)
		if _, err := sftp(client); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a session that does not end: %v", err)
		}
		client.Wait()
	})
}

func TestDirectoryCanBeChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		passwords, err := ParsePasswords("users",
			[]byte("u:"+argon2Line("secret", 64)+"\nother:"+argon2Line("x", 64)))
		if err != nil {
			t.Fatal(err)
		}
		user := User{Name: "u", FS: memfs.New(0), MaxSessions: 1}
		d, err := NewDirectory(Accounts{Users: []User{user}, Passwords: passwords})
		if err != nil {
			t.Fatal(err)
		}
		s := newServer(t, Config{Password: d.Password, PublicKey: d.PublicKey})
		client := mustConnect(t, s)
		if _, err := sftp(client); err != nil {
			t.Fatal(err)
		}
		user.Policy = server.Policy{ReadOnly: true}
		if err := d.Set(Accounts{Users: []User{user}, Passwords: passwords}); err != nil {
			t.Fatal(err)
		}
		if _, err := sftp(mustConnect(t, s)); err == nil {
			t.Error("the bound on sessions has forgotten one")
		}
		if err := d.Set(Accounts{Passwords: passwords}); err != nil {
			t.Fatal(err)
		}
		if _, err := connect(s, ssh.Password("secret")); err == nil {
			t.Error("a user who is gone got in")
		}
		for _, bad := range [][]User{{{Name: "u"}}, {{FS: user.FS}}, {user, user},
			{{Name: "u", FS: user.FS, Policy: server.Policy{Denied: []string{"reed"}}}}} {
			if err := d.Set(Accounts{Users: bad}); err == nil {
				t.Errorf("%+v was taken", bad)
			}
		}
	})
}

// TestNoSessionForTheDisabled: a connection that lasts begins no session once its user is disabled
// or removed. Sessions that have begun go on.
func TestNoSessionForTheDisabled(t *testing.T) {
	passwords, err := ParsePasswords("users", []byte("u:"+argon2Line("secret", 64)))
	if err != nil {
		t.Fatal(err)
	}
	listed := User{Name: "u", FS: memfs.New(0)}
	disabled := listed
	disabled.Admission.Disabled = true
	for name, after := range map[string][]User{"disabled": {disabled}, "removed": nil} {
		synctest.Test(t, func(t *testing.T) {
			d, err := NewDirectory(Accounts{Users: []User{listed}, Passwords: passwords})
			if err != nil {
				t.Fatal(err)
			}
			s := newServer(t, Config{Password: d.Password, PublicKey: d.PublicKey})
			client := mustConnect(t, s)
			begun, err := sftp(client)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Set(Accounts{Users: after, Passwords: passwords}); err != nil {
				t.Fatal(err)
			}
			if _, err := sftp(client); err == nil ||
				!strings.Contains(err.Error(), ErrNotAdmitted.Error()) {
				t.Errorf("%s: a session begins: %v", name, err)
			}
			begun.Write(wire.PathRequest{Type: wire.TypeRealpath, Path: "/"}.Append(nil, 1))
			if _, err := receive(begun); err != nil {
				t.Errorf("%s: the session that had begun: %v", name, err)
			}
			if err := d.Set(Accounts{Users: []User{listed}, Passwords: passwords}); err != nil {
				t.Fatal(err)
			}
			if _, err := sftp(client); err != nil {
				t.Errorf("%s, and there again: %v", name, err)
			}
		})
	}
}

// TestAdmissionIsUnknown: if it cannot be found out whether the user may still log in, no session
// begins, but the client is not told that the user may not, nor why.
func TestAdmissionIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		access := &Access{FS: memfs.New(0), Admit: func() error {
			if away.Load() {
				return errors.New("the database is away")
			}
			return nil
		}}
		s := newServer(t, Config{Password: func(ssh.ConnMetadata, string) (*Access, error) {
			return access, nil
		}})
		client := mustConnect(t, s)
		if _, err := sftp(client); err != nil {
			t.Fatal(err)
		}
		away.Store(true)
		if _, err := sftp(client); err == nil || !strings.Contains(err.Error(), errNoFiles.Error()) {
			t.Errorf("a session begins, or the client is told otherwise: %v", err)
		}
		away.Store(false)
		if _, err := sftp(client); err != nil {
			t.Error(err)
		}
	})
}

// TestDisabledMeanwhile: who is disabled, or removed, between the password and the second factor
// does not get in, also if they come from outside.
func TestDisabledMeanwhile(t *testing.T) {
	listed := User{Name: "u", FS: memfs.New(0), Outside: true}
	disabled := User{Name: "u", FS: memfs.New(0), Admission: Admission{Disabled: true}}
	for name, test := range map[string]struct {
		before, after []User
		gone, in      bool
	}{
		"nothing changes":          {[]User{listed}, []User{listed}, false, true},
		"disabled":                 {[]User{listed}, []User{disabled}, false, false},
		"disabled, as known later": {[]User{listed}, []User{listed}, true, false},
		"removed":                  {[]User{listed}, nil, false, false},
		"a guest":                  {nil, nil, false, true},
		"a guest, disabled":        {nil, []User{disabled}, false, false},
		"a guest, as known later":  {nil, nil, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var d *Directory
			var accounts Accounts
			var gone atomic.Bool
			second := func(ssh.ConnMetadata, string) error {
				gone.Store(test.gone)
				accounts.Users = test.after
				return d.Set(accounts)
			}
			accounts.Outside = func(ssh.ConnMetadata, bool, string) (*User, error) {
				return &User{FS: memfs.New(0), Second: second,
					Admission: Admission{Gone: gone.Load}}, nil
			}
			for _, users := range [][]User{test.before, test.after} {
				for i := range users {
					users[i].Second, users[i].Admission.Gone = second, gone.Load
				}
			}
			accounts.Users = test.before
			var err error
			if d, err = NewDirectory(accounts); err != nil {
				t.Fatal(err)
			}
			s := newServer(t, Config{Password: d.Password, PublicKey: d.PublicKey})
			client, err := connect(s, ssh.KeyboardInteractive(func(string, string, []string,
				[]bool) ([]string, error) {
				return []string{"secret"}, nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sftp(client); (err == nil) != test.in {
				t.Errorf("a session: %v", err)
			}
			client.Close()
		})
	}
}

func TestReloadKeepsHostKeys(t *testing.T) {
	s := newServer(t, onlyPassword(&Access{FS: memfs.New(0)}))
	before := line(s.HostKeys()[0])
	if err := s.Reload(onlyPassword(&Access{FS: memfs.New(0)})); err != nil {
		t.Fatal(err)
	}
	if line(s.HostKeys()[0]) != before {
		t.Error("the host key has changed")
	}
	if err := s.Reload(Config{}); err == nil {
		t.Error("a configuration by which nobody gets in was taken")
	}
}

func TestLoadHostKeys(t *testing.T) {
	name := filepath.Join(t.TempDir(), "key")
	made, err := LoadHostKeys(name)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadHostKeys(name)
	if err != nil || line(again[0].PublicKey()) != line(made[0].PublicKey()) {
		t.Errorf("the key was not kept: %v", err)
	}
	if info, err := os.Stat(name); err != nil ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for kind, want := range map[string]string{"ed25519": ssh.KeyAlgoED25519,
		"ecdsa": ssh.KeyAlgoECDSA256, "rsa": ssh.KeyAlgoRSA} {
		keys, err := LoadHostKeys(filepath.Join(t.TempDir(), "host_"+kind+"_key"))
		if err != nil || keys[0].PublicKey().Type() != want {
			t.Errorf("a key named %s: %v", kind, err)
		}
	}
	if err := os.WriteFile(name, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadHostKeys(name); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged key: %v", err)
	}
}
