package site

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
)

// Reading the configuration again keeps directories and quotas, for sessions that run and for new
// ones.
func TestServeKeepsWhatIsShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &Site{}
	first, err := s.tree(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.tree(dir)
	if err != nil || again != first || s.quota(again, dir, [2]int64{1, 2}) !=
		s.quota(first, dir, [2]int64{1, 2}) ||
		s.quota(first, dir, [2]int64{1, 3}) == s.quota(first, dir, [2]int64{1, 2}) {
		t.Errorf("%p and %p, %v", first, again, err)
	}
	if n := len(s.Quotas(dir)); n != 2 {
		t.Errorf("%d quotas, each with a count of its own", n)
	}
	if s.Shared = struct{ Shared }{}; len(s.Quotas(dir)) != 1 {
		t.Errorf("%d quotas with one count", len(s.Quotas(dir)))
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
