//go:build linux || darwin

package sftpfs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

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

// A program that changes a file's group leaves its owner on the host, whatever owner it shows here,
// and the other way round.
func TestOneOwnerStays(t *testing.T) {
	other := uint32(9)
	for name, ids := range map[string]ids{
		"one for all":    {uid: &other, gid: &other},
		"the user's own": {user: true, remoteUID: 1, remoteGID: 2, localUID: 5, localGID: 6},
		"none":           {},
	} {
		f := &FS{ids: ids}
		now := attrs{uid: 5, gid: 6}
		for valid, want := range map[uint32][2]int{fuse.FATTR_GID: {5, 7}, fuse.FATTR_UID: {7, 6}} {
			in := fuse.SetAttrInCommon{Valid: valid, Owner: fuse.Owner{Uid: 7, Gid: 7}}
			set, err := f.newAttrs(now, &in)
			if got := [2]int{set.UID, set.GID}; err != nil || !set.SetOwner || got != want {
				t.Errorf("%s: %+v, %v, want %d", name, set, err, want)
			}
		}
	}
}
