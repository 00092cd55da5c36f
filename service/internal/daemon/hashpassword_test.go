package daemon

import (
	"strings"
	"testing"

	"github.com/usftp/usftp/server/sshd"
)

func TestHashPassword(t *testing.T) {
	t.Parallel()
	got := run(t, t.TempDir(), "open sesame\n", "hash-password")
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
		if got := run(t, t.TempDir(), stdin, "hash-password"); got.code == 0 || got.stdout != "" {
			t.Errorf("%.10q was taken: %+v", stdin, got)
		}
	}
}
