package usftp_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// linkServers are servers that follow links where they should not, and others, with and without
// posix-rename.
func linkServers() map[string]sftptest.Script {
	none := []wire.ExtensionPair{}
	return map[string]sftptest.Script{
		"follows":               {FollowLinks: true},
		"follows, no extension": {FollowLinks: true, Extensions: none},
		"does not follow":       {},
		"no extension":          {Extensions: none},
	}
}

// linkScene fills a server with files and links.
func linkScene(files *sftptest.Files) {
	for _, name := range []string{"file", "precious", "other", "dir/file"} {
		files.WriteFile("/d/"+name, []byte(name))
	}
	for name, to := range map[string]string{"to precious": "precious", "to other": "other",
		"dangling": "../nowhere", "absolute": "/d/precious", "to dir": "dir"} {
		files.Symlink(to, "/d/"+name)
	}
}

// linkState returns what each name is: a file's contents, or where a link leads.
func linkState(t *testing.T, files *sftptest.Files) map[string]string {
	t.Helper()
	state := make(map[string]string)
	for _, name := range files.List() {
		name, to, link := strings.Cut(name, " -> ")
		switch {
		case link && path.IsAbs(to):
			state[name] = "-> " + to
		case link:
			state[name] = "-> " + path.Join(path.Dir(name), to)
		case strings.HasSuffix(name, "/"):
			state[strings.TrimSuffix(name, "/")] = "dir"
		default:
			data, err := files.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			state[name] = string(data)
		}
	}
	return state
}

// Whatever is moved to whatever name, nothing but these two names changes, as with rename(2), on
// any server.
func TestMoveFollowsNoLink(t *testing.T) {
	for server, script := range linkServers() {
		for _, version := range []string{"", openSSH} {
			if version != "" && script.FollowLinks {
				continue
			}
			for _, replace := range []bool{false, true} {
				r := newRig(t, script, 0, usftp.WithServerVersion(version))
				posix := replace && r.HasPosixRename()
				must[string](t)(r.RealPath("/")) // what belongs to the login has arrived
				linkScene(r.server.Files)
				names := linkState(t, r.server.Files)
				for from := range names {
					for to := range maps.Keys(names) {
						to += map[bool]string{true: "!"}[from == to] // a free name
						if from == "/d" || to == "/d" || strings.HasPrefix(to, from+"/") ||
							strings.HasPrefix(from, "/d/dir") ||
							to == "/d/dir/file" && strings.HasPrefix(names[from], "->") {
							continue
						}
						r.server.Files.Remove("/d")
						linkScene(r.server.Files)
						before := linkState(t, r.server.Files)
						r.server.ForgetRequests()
						err := private.OfClient(r.Client).Move(from, to, replace)
						requests := len(r.server.Requests())
						want := maps.Clone(before)
						old, exists := want[to]
						fails := exists && (old == "dir" || !replace ||
							!posix && !strings.HasPrefix(old, "->") &&
								(version != "" || !strings.HasPrefix(want[from], "->")))
						if !fails {
							want[to] = want[from]
							delete(want, from)
						}
						if got := linkState(t, r.server.Files); (err != nil) != fails ||
							!maps.Equal(got, want) {
							t.Errorf("%s, version %q, replace %v: %s to %s: %v, %v", server, version,
								replace, from, to, got, err)
						}
						if fails && old != "dir" && !errors.Is(err, fs.ErrExist) {
							t.Errorf("%s: %s to %s: %v", server, from, to, err)
						}
						if version != "" && (posix || !exists) && requests != 1 {
							t.Errorf("%s: %s to %s took %d requests", server, from, to, requests)
						}
					}
				}
			}
		}
	}
}

// TestMoveOfALinkThatStays: where a link to a directory cannot be removed, as with Erlang's server,
// the link does not get another name, or the error does not pass for a refusal.
func TestMoveOfALinkThatStays(t *testing.T) {
	for _, stays := range []string{"/d/to dir", "/d/"} {
		r := newRig(t, sftptest.Script{FollowLinks: true,
			Intercept: func(q sftptest.Request) []sftptest.Action {
				if q.Type == wire.TypeRemove && strings.HasPrefix(q.Path, stays) {
					return []sftptest.Action{sftptest.Refuse(wire.FileIsADirectory, "")}
				}
				return nil
			}}, 0)
		linkScene(r.server.Files)
		err := private.OfClient(r.Client).Move("/d/to dir", "/d/new", false)
		refused := errors.As(err, new(*usftp.StatusError))
		if _, exists := linkState(t, r.server.Files)["/d/new"]; err == nil || refused == exists {
			t.Errorf("%v; it has its new name: %t", err, exists)
		}
	}
}

// What must not replace anything does not, even where RENAME replaces files: many servers pass it
// on to rename(2). A file can still get its name in other letters.
func TestMoveReplacesNothingWhereRenameDoes(t *testing.T) {
	var files *sftptest.Files
	r := newRig(t, sftptest.Script{Intercept: func(q sftptest.Request) []sftptest.Action {
		if q.Type == wire.TypeRename {
			files.Remove(q.Path2)
		}
		return nil
	}}, 0)
	files = r.server.Files
	move := private.OfClient(r.Client).Move
	files.WriteFile("/a", []byte("a"))
	files.WriteFile("/b", []byte("b"))
	if err := move("/a", "/b", false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file gets a name that is taken: %v", err)
	}
	if a, b := must[[]byte](t)(files.ReadFile("/a")), must[[]byte](t)(files.ReadFile("/b")); string(a) != "a" || string(b) != "b" {
		t.Errorf("the files are now %q and %q", a, b)
	}
	for _, to := range []string{"/c", "/C"} { // where letters do not count, both are there
		if err := move("/a", to, false); err != nil {
			t.Error(err)
		}
		files.WriteFile("/a", []byte("a"))
	}
	files.WriteFile("/D", nil)
	files.WriteFile("/d", nil)
	if err := move("/d", "/D", false); err != nil {
		t.Errorf("a name in other letters: %v", err)
	}
}

// A link that is moved to another spelling of its own name stays, as with rename(2).
func TestMoveOfALinkOntoItself(t *testing.T) {
	for server, script := range linkServers() {
		for _, to := range []string{"/to d/to other", "/d/dir/../to other"} {
			r := newRig(t, script, 0)
			linkScene(r.server.Files)
			r.server.Files.Symlink("d", "/to d")
			before := linkState(t, r.server.Files)
			if err := private.OfClient(r.Client).Move("/d/to other", to, true); err != nil {
				t.Errorf("%s: %s: %v", server, to, err)
			}
			if got := linkState(t, r.server.Files); !maps.Equal(got, before) {
				t.Errorf("%s: %s: %v", server, to, got)
			}
		}
	}
}

// A link replaces a file or a link, and says what it should.
func TestReplaceByLink(t *testing.T) {
	for server, script := range linkServers() {
		for _, version := range []string{"", openSSH} {
			if version != "" && script.FollowLinks {
				continue
			}
			r := newRig(t, script, 0, usftp.WithServerVersion(version))
			for _, name := range []string{"file", "to precious", "dangling", "to dir", "free", "dir"} {
				r.server.Files.Remove("/d")
				linkScene(r.server.Files)
				want := linkState(t, r.server.Files)
				name = "/d/" + name
				fails := want[name] == "dir"
				if !fails {
					want[name] = "-> /x y"
				}
				err := private.OfClient(r.Client).ReplaceByLink("../x y", name, "/d/t", "/d/a")
				if got := linkState(t, r.server.Files); (err != nil) != fails ||
					!maps.Equal(got, want) {
					t.Errorf("%s, version %q: %s: %v, %v", server, version, name, got, err)
				}
			}
		}
	}
}

// TestReplaceByLinkLeavesNothingUnnamed: a link that can neither replace a name nor be removed is
// named.
func TestReplaceByLinkLeavesNothingUnnamed(t *testing.T) {
	r := newRig(t, sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeRemove, Path: "/d/t",
		Do: sftptest.Refuse(wire.PermissionDenied, "no")}}}, 0, usftp.WithServerVersion(openSSH))
	linkScene(r.server.Files)
	err := private.OfClient(r.Client).ReplaceByLink("to", "/d/dir", "/d/t", "/d/a")
	if err == nil || !strings.Contains(err.Error(), "is still called /d/t") {
		t.Errorf("the link is still there, and the error is %v", err)
	}
}

// What cannot be replaced stays or comes back, and if it cannot come back the error says what it
// was.
func TestReplacingALinkIsRefused(t *testing.T) {
	for server, script := range linkServers() {
		for back, refused := range map[bool][]wire.Type{true: {wire.TypeRename, wire.TypeExtended},
			false: {wire.TypeRename, wire.TypeExtended, wire.TypeSymlink}} {
			r := newRig(t, script, 0)
			linkScene(r.server.Files)
			before := linkState(t, r.server.Files)
			for _, on := range refused {
				r.server.AddFaults(sftptest.Fault{On: on, Do: sftptest.Refuse(wire.Failure, "no")})
			}
			err := private.OfClient(r.Client).Move("/d/file", "/d/to precious", true)
			if !errors.Is(err, usftp.ErrSSHFxFailure) {
				t.Errorf("%s: %v", server, err)
			}
			if !back {
				delete(before, "/d/to precious")
				if !strings.Contains(err.Error(), "/d/to precious was a link to /d/precious") &&
					!strings.Contains(err.Error(), "/d/to precious was a link to precious") {
					t.Errorf("%s: %v", server, err)
				}
			}
			if got := linkState(t, r.server.Files); !maps.Equal(got, before) {
				t.Errorf("%s: %v", server, got)
			}
		}
	}
}

// What a link or a file replaces comes back if the caller gives up half way, whether or not the
// last request was answered.
func TestReplacingIsCancelled(t *testing.T) {
	over := func(c *usftp.Client) error {
		return private.OfClient(c).Move("/d/file", "/d/to precious", true)
	}
	byLink := func(c *usftp.Client) error {
		return private.OfClient(c).ReplaceByLink("../x y", "/d/file", "/d/t", "/d/a")
	}
	refused, dropped := sftptest.Refuse(wire.Failure, "no"), sftptest.Drop()
	for server, script := range linkServers() {
		for _, test := range []struct {
			step   wire.Type
			answer sftptest.Action
			do     func(*usftp.Client) error
		}{
			{wire.TypeRemove, dropped, over}, {wire.TypeRename, refused, over},
			{wire.TypeRename, dropped, byLink}, {wire.TypeSymlink, refused, byLink},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			r := newRig(t, script, 0)
			linkScene(r.server.Files)
			before := linkState(t, r.server.Files)
			giveUp := sftptest.Call("cancel", func(sftptest.Request) { cancel() })
			r.server.AddFaults(sftptest.Fault{On: test.step, Times: 1, Do: giveUp},
				sftptest.Fault{On: test.step, Times: 1, Do: test.answer})
			err := test.do(r.WithContext(ctx))
			if err == nil {
				t.Errorf("%s, %v: it worked", server, test.step)
			}
			if got := linkState(t, r.server.Files); !maps.Equal(got, before) {
				t.Errorf("%s, %v: %v after %v", server, test.step, got, err)
			}
		}
	}
}

// If the answer that would show a link is lost, nobody says that there is none.
func TestLookLost(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{FollowLinks: true,
		Faults: []sftptest.Fault{{On: wire.TypeReadlink, Do: sftptest.Hangup()}}})
	linkScene(server.Files)
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
	info, err := private.OfClient(client).Look("/d/to precious")
	if _, lost := errors.AsType[*usftp.LostError](err); !lost {
		t.Errorf("it is %v, %v", info, err)
	}
}

// What a server has answered about a name stands, although the connection is lost before the caller
// takes the answer.
func TestLookBeforeLoss(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{})
	server.Files.WriteFile("/file", []byte("contents"))
	end := server.Dial(sftptest.LinkConfig{})
	client := must[*usftp.Client](t)(usftp.NewClientPipe(end, end))
	defer client.Close()
	look := private.OfClient(client).StartLook("/file")
	if _, err := client.Stat("/file"); err != nil { // is answered after LSTAT and READLINK
		t.Fatal(err)
	}
	end.Cut(nil)
	<-client.Done()
	if info, err := look(); err != nil || info.Size() != 8 {
		t.Errorf("it is %v, %v", info, err)
	}
}

// If a connection is lost while a refusal is looked into, its loss is the reason, since over another
// connection all may be well.
func TestLostWhileRefusalsAreLookedInto(t *testing.T) {
	refuse := func(kinds ...wire.Type) (faults []sftptest.Fault) {
		for _, kind := range kinds {
			faults = append(faults, sftptest.Fault{On: kind,
				Do: sftptest.Refuse(wire.Failure, "")})
		}
		return faults
	}
	for _, test := range []struct {
		name    string
		refused []sftptest.Fault
		last    wire.Type // is not answered
		do      func(c *usftp.Client) error
	}{
		{"Find", refuse(wire.TypeStat, wire.TypeLstat), wire.TypeOpendir,
			func(c *usftp.Client) error {
				_, err := private.OfClient(c).Find("/d")
				return err
			}},
		{"Find of a link", refuse(wire.TypeStat), wire.TypeRealpath, func(c *usftp.Client) error {
			_, err := private.OfClient(c).Find("/d/link")
			return err
		}},
		{"Look", refuse(wire.TypeStat, wire.TypeLstat, wire.TypeReadlink), wire.TypeOpendir,
			func(c *usftp.Client) error {
				_, err := private.OfClient(c).Look("/d")
				return err
			}},
		{"MkdirAll", nil, wire.TypeStat, func(c *usftp.Client) error { return c.MkdirAll("/d") }},
		{"Symlink", nil, wire.TypeReadlink,
			func(c *usftp.Client) error { return c.Symlink("to", "/d/new") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := sftptest.NewServer(t, sftptest.Script{Faults: append(test.refused,
				sftptest.Fault{On: test.last, Do: sftptest.Hangup()})})
			server.Files.WriteFile("/d/file", nil)
			server.Files.Symlink("file", "/d/link")
			client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
			if err := test.do(client); !errors.As(err, new(*usftp.LostError)) {
				t.Errorf("the connection was lost, and the error is %v", err)
			}
		})
	}
}
