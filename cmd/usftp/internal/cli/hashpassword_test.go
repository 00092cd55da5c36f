package cli

import (
	"strings"
	"testing"

	"github.com/usftp/usftp/server/sshd"
)

func TestHashPassword(t *testing.T) {
	t.Parallel()
	cmd := command(t, t.TempDir(), "hash-password")
	cmd.Stdin = strings.NewReader("open sesame\n")
	got := finish(t, cmd)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("%+v", got)
	}
	users, err := sshd.ParsePasswords("users", []byte("u:"+got.stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := users.Check(t.Context(), "u", "open sesame"); err != nil {
		t.Error(err)
	}
	for _, stdin := range []string{"", "\n", strings.Repeat("x", 5000)} {
		cmd := command(t, t.TempDir(), "hash-password")
		cmd.Stdin = strings.NewReader(stdin)
		if got := finish(t, cmd); got.code == 0 || got.stdout != "" {
			t.Errorf("%.10q was taken: %+v", stdin, got)
		}
	}
}
