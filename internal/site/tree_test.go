package site

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/wire"
)

// Reading the configuration again keeps directories, for sessions that run and for new ones.
func TestServeKeepsWhatIsShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &Site{}
	first, err := s.tree(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.tree(dir)
	if err != nil || again != first {
		t.Errorf("%p and %p, %v", first, again, err)
	}
	if err := os.Rename(dir, dir+"-old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if other, err := s.tree(dir); err != nil || other == first {
		t.Errorf("another directory of the same name is taken for the old one, %v", err)
	}
}

// oneCount is shared state that has the count of one tree.
type oneCount struct {
	Shared
	count server.Limitable
}

func (o oneCount) Account(_ string, maxBytes, maxFiles int64) server.Account {
	return o.count.WithLimits(maxBytes, maxFiles)
}

func (oneCount) Bans() sshd.Bans { return nil }

func (oneCount) Sessions(string, int) sshd.Sessions { return nil }

func (oneCount) Bandwidth(string, sshd.Rates) sshd.Bandwidth { return nil }

// Users of one root share its count, each with limits of their own, also over a reload that changes
// them.
func TestUsersOfOneRoot(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]Shared{
		"alone":           nil,
		"several servers": oneCount{count: server.NewAccount(0, 0).(server.Limitable)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, limit := t.TempDir(), int64(100)
			hostKey := filepath.Join(t.TempDir(), "host_ed25519_key")
			s := &Site{App: ui.NewApp("usftpd"), Shared: shared, Read: func() (*Settings, error) {
				user := func(name string, limit int64) Account {
					return Account{Root: root, Quota: [2]int64{limit, 0},
						User: sshd.User{Name: name, Keys: &sshd.AuthorizedKeys{}}}
				}
				return &Settings{HostKeys: []string{hostKey},
					Users: []Account{user("small", limit), user("large", 1<<20)}}, nil
			}}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			must(s.Start())
			login := func(user string) *server.View {
				files, policy, err := s.Served()[user].Open()
				must(err)
				view, err := server.NewView(files, policy)
				must(err)
				return view
			}
			open := func(view *server.View, name string) *server.ViewFile {
				f, err := view.Open(t.Context(), name, wire.OpenWrite|wire.OpenCreate, wire.Attrs{})
				must(err)
				return f
			}
			write := func(view *server.View, name string, size int) error {
				f := open(view, name)
				_, err := f.WriteAt(make([]byte, size), 0)
				return errors.Join(err, f.Close())
			}
			used := func(want int64) {
				t.Helper()
				for user, served := range s.Served() {
					if now, _ := served.Quota.Usage(); now != want {
						t.Errorf("%d bytes count for %s, want %d", now, user, want)
					}
				}
			}
			small, large := login("small"), login("large")
			must(small.Mkdir(t.Context(), "/d", wire.Attrs{})) // the tree is counted
			var group sync.WaitGroup
			for _, view := range []*server.View{small, large} {
				group.Go(func() { must(write(view, "/both", 40)) })
			}
			group.Wait()
			used(40)
			must(write(large, "/large", 1000))
			if err := write(small, "/small", 1); !errors.Is(err, server.ErrQuota) {
				t.Errorf("beyond the smaller limit: %v", err)
			}
			kept := open(small, "/large")
			must(large.Remove(t.Context(), "/large"))
			used(1040)
			must(kept.Close())
			used(40)
			limit = 2000
			made, err := s.read()
			must(err)
			must(s.apply(made))
			must(write(large, "/large", 1000))
			must(write(login("small"), "/more", 500))
			used(1540)
			if err := write(small, "/small", 1); !errors.Is(err, server.ErrQuota) {
				t.Errorf("with the limits from before: %v", err)
			}
			for _, q := range s.quotas() {
				must(q.Recount(t.Context(), q.fs, "/"))
			}
			used(1540)
			if n := len(s.Quotas(root)); n != 1 {
				t.Errorf("%d quotas", n)
			}
		})
	}
}

// Settings that cannot take effect change nothing, not even what is said of the users' files.
func TestReloadThatFails(t *testing.T) {
	t.Parallel()
	before, after := t.TempDir(), t.TempDir()
	root, hostKey := before, filepath.Join(t.TempDir(), "host_ed25519_key")
	s := &Site{App: ui.NewApp("usftpd"), Read: func() (*Settings, error) {
		return &Settings{HostKeys: []string{hostKey}, Users: []Account{{Root: root,
			User: sshd.User{Name: "u", Keys: &sshd.AuthorizedKeys{}}}}}, nil
	}}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	root = after
	if err := os.WriteFile(hostKey, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.apply(made); err == nil || s.Served()["u"].Root != before {
		t.Errorf("%s is served, after %v", s.Served()["u"].Root, err)
	}
}
