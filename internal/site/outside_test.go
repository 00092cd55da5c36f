package site

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
)

// from is a connection of a user.
type from struct {
	ssh.ConnMetadata
	user string
}

func (f from) User() string         { return f.user }
func (f from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }

// TestGuestsAreForgotten: whoever decides may let in any number of users. Those who have gone are
// forgotten when they are too many, and nothing of them stays open; directories of listed users do.
func TestGuestsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		listed := filepath.Join(dir, "listed")
		if err := os.Mkdir(listed, 0o755); err != nil {
			t.Fatal(err)
		}
		let := func(conn ssh.ConnMetadata, _ bool, _ string) (*Account, error) {
			one := &Account{Root: filepath.Join(dir, conn.User())}
			one.Name, one.MakeRoot, one.Quota = conn.User(), true, [2]int64{1, 0}
			return one, os.MkdirAll(one.Root, 0o755)
		}
		s := &Site{App: ui.NewApp("usftpd"), mostGuests: 10, Read: func() (*Settings, error) {
			return &Settings{HostKeys: []string{filepath.Join(dir, "host_ed25519_key")},
				Users: []Account{{User: sshd.User{Name: "u"}, Root: listed}}, Outside: let}, nil
		}}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			name := fmt.Sprint("guest", i)
			if i%7 == 0 {
				name = "listed" // who has the directory of a listed user
			}
			if _, err := s.directory.Password(from{user: name}, "any"); err != nil {
				t.Fatal(err)
			}
			if _, known := s.Guests()[name]; !known {
				t.Fatalf("%s is let in, and not known", name)
			}
			if n := len(s.Guests()); n > 10 {
				t.Fatalf("%d guests are remembered", n)
			}
			if n := len(s.trees); n > 11 || s.trees[listed] == nil {
				t.Fatalf("%d directories are open", n)
			}
			if n := len(s.Quotas(filepath.Join(dir, name))); n != 1 {
				t.Fatalf("%s has %d quotas", name, n)
			}
			time.Sleep(letInFor)
		}
		if n := len(s.Quotas(filepath.Join(dir, "guest1"))); n != 1 {
			t.Errorf("%d quotas are known of what guest1 may have left", n)
		}
	})
}
