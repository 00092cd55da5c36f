package sshd

import (
	"fmt"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/memfs"
)

// TestGuestsAreForgotten: of users who come from outside, of whom there may be any number, those
// with sessions keep their limits, and the others are forgotten when they are too many.
func TestGuestsAreForgotten(t *testing.T) {
	d, err := NewDirectory(Accounts{Outside: func(ssh.ConnMetadata, bool, string) (*User, error) {
		return &User{FS: memfs.New(0), MaxSessions: 1}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	let := func(user string) Sessions {
		t.Helper()
		e, err := d.ask(d.outside, named{user}, nil, "any")
		if err != nil {
			t.Fatal(err)
		}
		return e.sessions
	}
	end, err := let("busy").Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	for i := range 2 * mostGuests {
		let(fmt.Sprint("guest", i))
		if n := len(d.guests); n > mostGuests {
			t.Fatalf("%d guests are remembered", n)
		}
	}
	if _, err := let("busy").Begin(t.Context()); err == nil {
		t.Error("the sessions of a guest are no longer counted")
	}
}
