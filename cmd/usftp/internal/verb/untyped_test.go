package verb

import (
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestUntypedTrees: where the server does not tell the types of files, trees are visited as a whole,
// and no link is followed.
func TestUntypedTrees(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]sftptest.Script{
		"no modes":             {HideAttrs: wire.AttrPermissions},
		"no modes, bare lines": {HideAttrs: wire.AttrPermissions, BareLines: true},
		"permissions only":     {HideTypes: true, BareLines: true},
		"nothing":              {HideAttrs: ^uint32(0), BareLines: true},
		"no READLINK either": {HideAttrs: wire.AttrPermissions, BareLines: true,
			Refuse: []wire.Type{wire.TypeReadlink}},
	} {
		server := sftptest.NewServer(t, script)
		server.Files.WriteFile("/t/d/f", []byte("contents"))
		server.Files.WriteFile("/other/f", nil)
		server.Files.Symlink("/other", "/t/link")
		client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
		r := newRig(client)
		x, err := ParseExpression(strings.Fields("-type d -o -type f"))
		ok(t, err)
		ok(t, Find(background, r.Env, x, []string{"/t"}))
		if out, said := r.take(); out != "/t\n/t/d\n/t/d/f\n" || said != "" {
			t.Errorf("%s: find printed %q, and said %q", name, out, said)
		}
		ok(t, List(background, r.Env, ListOptions{Recursive: true, Classify: true},
			[]string{"/t"}))
		if out, said := r.take(); out != "/t:\nd/\nlink@\n\n/t/d:\nf\n" || said != "" {
			t.Errorf("%s: ls printed %q, and said %q", name, out, said)
		}
		ok(t, ChangeMode(background, r.Env, ChangeModeOptions{Recursive: true, Mode: "700"},
			[]string{"/t"}))
		if is, err := server.Files.Lstat("/t/d/f"); err != nil || is.Permissions&0o777 != 0o700 {
			t.Errorf("%s: the file has mode %o, %v", name, is.Permissions, err)
		}
		err = Remove(background, r.Env, RemoveOptions{}, []string{"/t/link/"})
		if _, said := r.take(); err == nil || !strings.Contains(said, "not a directory") {
			t.Errorf("%s: rm of a link with a slash after it said %q", name, said)
		}
		ok(t, Remove(background, r.Env, RemoveOptions{Recursive: true}, []string{"/t"}))
		if left := server.Files.List(); !slices.Equal(left, []string{"/other/", "/other/f"}) {
			t.Errorf("%s: rm left %q", name, left)
		}
	}
}
