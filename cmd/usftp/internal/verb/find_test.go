package verb

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

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
			server := sftptest.NewServer(t, sftptest.Script{HideAttrs: hidden,
				Extensions: []wire.ExtensionPair{}})
			server.Files.WriteFile("/t/f", []byte("contents"))
			link := server.Dial(sftptest.LinkConfig{})
			client, err := usftp.NewClientPipe(link, link)
			ok(t, err)
			t.Cleanup(func() { client.Close() })
			r := newRig(client)
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
