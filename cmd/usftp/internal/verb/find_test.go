package verb

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// untold returns a rig whose server does not send some attributes, and opens nothing that would
// tell them.
func untold(t *testing.T, hidden uint32) (*rig, *sftptest.Scripted) {
	t.Helper()
	server := sftptest.NewServer(t, sftptest.Script{HideAttrs: hidden,
		Extensions: []wire.ExtensionPair{}, Refuse: []wire.Type{wire.TypeOpendir, wire.TypeOpen}})
	server.Files.WriteFile("/t/f", []byte("contents"))
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
	return newRig(client), server
}

// TestStatUntold: a mode that the server does not send is not 0.
func TestStatUntold(t *testing.T) {
	t.Parallel()
	r, _ := untold(t, wire.AttrPermissions)
	ok(t, Status(background, r.Env, StatusOptions{Format: "%a %f %s"}, []string{"/t/f"}))
	if out, _ := r.take(); out != "? ? 8\n" {
		t.Errorf("it printed %q", out)
	}
}

// TestFindNewerThanUntold: a file without a time is not older than all others.
func TestFindNewerThanUntold(t *testing.T) {
	t.Parallel()
	r, _ := untold(t, wire.AttrACModTime)
	x, err := ParseExpression(strings.Fields("-name f -o -newer /t/f"))
	ok(t, err)
	err = Find(background, r.Env, x, []string{"/"})
	if out, said := r.take(); codeOf(err) != 1 || out != "" ||
		said != "cannot compare with /t/f: the server does not report its times" {
		t.Errorf("%v: it printed %q and said %q", err, out, said)
	}
}

// TestFindUntold: what a test cannot tell, because the server does not send it, is no reason to
// delete a file or to run a program on it, nor is its contrary, of which the user is told.
func TestFindUntold(t *testing.T) {
	t.Parallel()
	for expression, hidden := range map[string]uint32{
		"-size 0": wire.AttrSize, "-size -9k": wire.AttrSize, "-empty": wire.AttrSize,
		"-uid 0": wire.AttrUIDGID, "-gid 0": wire.AttrUIDGID, "! -user 1": wire.AttrUIDGID,
		"! -group 1": wire.AttrUIDGID, "! -mtime -30": wire.AttrACModTime,
		"! -amin +1": wire.AttrACModTime, "! -newer /t": wire.AttrACModTime,
		"! -perm 700": wire.AttrPermissions, "! -type d": wire.AttrPermissions,
		"! -user nobody": 0, "-name f ! -group staff": 0,
	} {
		for _, action := range []string{"-delete", "-exec true ;", "-exec true {} +"} {
			r, server := untold(t, hidden)
			r.Run = func(_ context.Context, argv []string) error {
				t.Errorf("%s: it ran %q", expression, argv)
				return nil
			}
			x, err := ParseExpression(strings.Fields(expression + " " + action))
			ok(t, err)
			err = Find(background, r.Env, x, []string{"/t/f"})
			_, said := r.take()
			told := codeOf(err) == 1 && strings.Contains(said, "does not report")
			if told != strings.Contains(expression, "!") ||
				!slices.Contains(server.Files.List(), "/t/f") {
				t.Errorf("%s %s: %v, left %q, said %q", expression, action, err,
					server.Files.List(), said)
			}
		}
	}
}
