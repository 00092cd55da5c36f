//go:build linux || darwin

package sftpfs

import (
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A host that does not show the user's home is mounted with its own owners, unless the mapping was
// asked for.
func TestHomeIsHidden(t *testing.T) {
	s := &scripted{server: sftptest.NewServer(t, sftptest.Script{
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeStat && r.Path == "." {
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
			}
			return nil
		}})}
	host, err := s.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.cut)
	options := Options{Root: "/", Timeout: scriptedTimeout, Buffer: bufferSize,
		RescueDir: t.TempDir(), MapIfKnown: true}
	mounted, err := New(t.Context(), host, options)
	if err != nil {
		t.Fatal(err)
	}
	if mounted.ids.user {
		t.Error("owners are mapped, and nothing shows whose files are the user's")
	}
	if err := mounted.Close(); err != nil {
		t.Error(err)
	}
	options.MapUser = true
	if _, err := New(t.Context(), host, options); err == nil {
		t.Error("the mapping that was asked for is left out")
	}
}
