package verb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestFewHandles: files that a host refuses only while others are open are read and made all the
// same, and one that it refuses in any case is reported once.
func TestFewHandles(t *testing.T) {
	var names []string
	want := ""
	for i := range 40 {
		names = append(names, fmt.Sprintf("/f%02d", i))
		want += fmt.Sprintf("line %d\n", i)
	}
	names = append(names[:20:20], append([]string{"/denied"}, names[20:]...)...)
	script := sftptest.Script{Limits: &wire.LimitsReply{MaxOpenHandles: 3},
		Extensions: []wire.ExtensionPair{},
		Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == wire.TypeOpen && strings.HasPrefix(r.Path, "/denied") {
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "no")}
			}
			return nil
		}}
	for _, verb := range []struct {
		name, want, said string
		run              func(r *rig) error
	}{
		{"tail", want, "cannot read /denied: ", func(r *rig) error {
			o := TailOptions{HeadOptions: HeadOptions{Count: 1, Quiet: true}}
			return Tail(context.Background(), r.Env, o, names)
		}},
		{"cat", strings.ReplaceAll(want, "line", "first\nline"), "cannot read /denied: ",
			func(r *rig) error {
				return Concatenate(context.Background(), r.Env, ConcatenateOptions{}, names)
			}},
		{"head", strings.ReplaceAll(want, "line", "first\nline"), "cannot read /denied: ",
			func(r *rig) error {
				return Head(context.Background(), r.Env, HeadOptions{Count: 9, Quiet: true}, names)
			}},
		{"touch", "", "cannot touch /denied.new: ", func(r *rig) error {
			var fresh []string
			for _, name := range names {
				fresh = append(fresh, name+".new")
			}
			return Touch(context.Background(), r.Env, TouchOptions{}, fresh)
		}},
	} {
		t.Run(verb.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := sftptest.NewScripted(script)
				defer server.Close()
				for i := range 40 {
					server.Files.WriteFile(fmt.Sprintf("/f%02d", i), fmt.Appendf(nil, "first\nline %d\n", i))
				}
				server.Files.WriteFile("/denied", nil)
				link := server.Dial(sftptest.LinkConfig{ToServer: time.Second, ToClient: time.Second})
				client, err := usftp.NewClientPipe(link, link)
				ok(t, err)
				defer client.Close()
				r := newRig(client)
				verb.run(r)
				out, said := r.take()
				if out != verb.want || strings.Count(said, "cannot") != 1 ||
					!strings.HasPrefix(said, verb.said) {
					t.Errorf("printed %q, said %q", out, said)
				}
				for i := range 40 {
					if name := fmt.Sprintf("/f%02d.new", i); verb.name == "touch" && !server.Files.Exists(name) {
						t.Errorf("%s was not made", name)
					}
				}
			})
		})
	}
}
