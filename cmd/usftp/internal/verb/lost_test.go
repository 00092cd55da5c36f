package verb

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A lossy rig is one whose connections break as the server's faults say, and are replaced.
type lossy struct {
	*rig
	server   *sftptest.Scripted
	progress []bool // with which each replacement was asked for
}

func newLossy(t *testing.T, faults ...sftptest.Fault) *lossy {
	t.Helper()
	l := &lossy{server: sftptest.NewScripted(sftptest.Script{})}
	t.Cleanup(func() { l.server.Close() })
	l.server.AddFaults(faults...)
	dial := func() *usftp.Client {
		link := l.server.Dial(sftptest.LinkConfig{})
		client, err := usftp.NewClientPipe(link, link, usftp.WithServerVersion(openSSH))
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { client.Close() })
		return client
	}
	l.rig = newRig(dial())
	l.Renew = func(err error, progress bool) *usftp.Client {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("renewed because of %v", err)
		}
		l.progress = append(l.progress, progress)
		return dial()
	}
	return l
}

// files are the files that the tests change.
var files = []string{"/t/a", "/t/b", "/t/c", "/t/d", "/t/e", "/t/f", "/t/g", "/t/h", "/t/i", "/t/j"}

func (l *lossy) seed() {
	for _, name := range files {
		l.server.Files.WriteFile(name, nil)
	}
}

// hangup breaks the connection at a request of a type, after skip others.
func hangup(on wire.Type, skip int) sftptest.Fault {
	return sftptest.Fault{On: on, Skip: skip, Times: 1, Do: sftptest.Hangup()}
}

// TestChangesAreReportedOnce: a verb that changes files is run again after a lost connection, and
// reports each change, and each failure, once.
func TestChangesAreReportedOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		at   wire.Type
		run  func(e *Env, names []string) error
	}{
		{"chmod", wire.TypeSetstat, func(e *Env, names []string) error {
			return ChangeMode(background, e, ChangeModeOptions{Mode: "600"}, names)
		}},
		{"chown", wire.TypeSetstat, func(e *Env, names []string) error {
			return ChangeOwner(background, e, ChangeOwnerOptions{Owner: "1:1"}, names)
		}},
		{"touch", wire.TypeSetstat, func(e *Env, names []string) error {
			return Touch(background, e, TouchOptions{NoCreate: true}, names)
		}},
		{"rm", wire.TypeRemove, func(e *Env, names []string) error {
			return Remove(background, e, RemoveOptions{}, names)
		}},
		{"find -delete", wire.TypeRemove, func(e *Env, names []string) error {
			x, err := ParseExpression(strings.Fields("-type f -print -delete"))
			if err != nil {
				return err
			}
			return Find(background, e, x, names)
		}},
	} {
		for _, json := range []bool{false, true} {
			name := test.name
			if json {
				name += " --json"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := newLossy(t, hangup(test.at, 5), hangup(test.at, 14))
				l.seed()
				l.Verbose, l.JSON = test.name != "find -delete", json
				names := slices.Insert(slices.Clone(files), 2, "/t/missing")
				err := l.Steadily(true, func() error { return test.run(l.Env, names) })
				out, said := l.take()
				for _, name := range files {
					report := name
					if json && test.name == "find -delete" { // which reports removals too
						report = `"file","path":"` + name
					}
					n := strings.Count(out, report)
					if n > 1 || n == 0 && test.name != "rm" { // the reply to a removal may be lost
						t.Errorf("%s is reported %d times", name, n)
					}
				}
				failures := strings.Count(said, "missing")
				if json {
					failures = strings.Count(out, `"error"`)
				}
				if touch := test.name == "touch"; !touch && (failures != 1 || codeOf(err) != 1) ||
					touch && err != nil {
					t.Errorf("%v, %d failures: %q", err, failures, said)
				}
				if len(l.progress) == 0 {
					t.Error("no connection was lost")
				}
				if t.Failed() {
					t.Log(out)
				}
			})
		}
	}
}

// TestChangesAreProgress: a run that came further than those before has made progress, whether or
// not it prints anything.
func TestChangesAreProgress(t *testing.T) {
	t.Parallel()
	// The first run makes 5 links, the second 2, the third 8. Replacing one takes two requests.
	l := newLossy(t, hangup(wire.TypeSymlink, 5), hangup(wire.TypeSymlink, 6+2*2),
		hangup(wire.TypeSymlink, 6+5+5*2+3))
	l.seed()
	l.server.Files.WriteFile("/links/before", nil)
	ok(t, l.Steadily(true, func() error {
		for _, name := range files { // or the server would get them in any order
			err := Link(background, l.Env, LinkOptions{Symbolic: true, Force: true},
				[]string{name, "/links"})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	if want := []bool{true, false, true}; !slices.Equal(l.progress, want) {
		t.Errorf("progress %v, want %v", l.progress, want)
	}
}

// TestRemoveMissing: a file that no run has found is missing, and one that an earlier run has
// removed is not.
func TestRemoveMissing(t *testing.T) {
	t.Parallel()
	deleting, err := ParseExpression([]string{"-delete"})
	ok(t, err)
	for _, test := range []struct {
		name string
		run  func(e *Env, name string) error
	}{
		{"rm", func(e *Env, name string) error {
			return Remove(background, e, RemoveOptions{}, []string{name})
		}},
		{"find -delete", func(e *Env, name string) error {
			return Find(background, e, deleting, []string{name})
		}},
	} {
		t.Run(test.name+", lost before the file was looked for", func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, hangup(wire.TypeLstat, 0))
			err := l.Steadily(true, func() error { return test.run(l.Env, "/typo") })
			if _, said := l.take(); codeOf(err) != 1 ||
				!strings.Contains(said, "/typo: no such file") {
				t.Errorf("%v: %q", err, said)
			}
		})
		t.Run(test.name+", lost after it was removed", func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, sftptest.Fault{On: wire.TypeRemove, Times: 1,
				Do: sftptest.Truncate(0)})
			l.server.Files.WriteFile("/f", nil)
			err := l.Steadily(true, func() error { return test.run(l.Env, "/f") })
			if _, said := l.take(); err != nil || said != "" || len(l.progress) != 1 {
				t.Errorf("%v: %q; %d connections were replaced", err, said, len(l.progress))
			}
		})
	}
}

// TestMakeDirectoryAgain: a directory that was made just before the connection was lost gets its
// mode, and is reported once.
func TestMakeDirectoryAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault sftptest.Fault
		dirs  []string
	}{
		{"the reply to MKDIR is lost", sftptest.Fault{On: wire.TypeMkdir, Skip: 1, Times: 1,
			Do: sftptest.Truncate(0)}, []string{"/new/deep"}},
		{"the mode is not set", hangup(wire.TypeSetstat, 0), []string{"/new/deep", "/new"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t, test.fault)
			l.Verbose = true
			err := l.Steadily(true, func() error {
				return MakeDirectory(background, l.Env, MakeDirectoryOptions{Parents: true,
					Mode: "700"}, test.dirs)
			})
			out, _ := l.take()
			attrs, statErr := l.server.Files.Lstat("/new/deep")
			if err != nil || statErr != nil || attrs.Permissions&0o777 != 0o700 {
				t.Errorf("%v, %v: the mode is %o", err, statErr, attrs.Permissions)
			}
			if above, err := l.server.Files.Lstat("/new"); err != nil ||
				above.Permissions&0o777 == 0o700 {
				t.Errorf("/new, which was there for its turn, has mode %o: %v", above.Permissions, err)
			}
			if out != "mkdir: created directory '/new'\nmkdir: created directory '/new/deep'\n" ||
				len(l.progress) != 1 {
				t.Errorf("after %d replacements it printed %q", len(l.progress), out)
			}
		})
	}
}

// TestInterruptedAgain: Ctrl-C during another run is what ended the verb, not that less was
// printed.
func TestInterruptedAgain(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("Ctrl-C")
	lost := &usftp.LostError{}
	err := l.Steadily(false, func() error {
		j := l.begin(ctx)
		if l.Again {
			cancel(stopped)
			j.line("names that the server did not tell any more")
			return j.end()
		}
		j.line("names of owners")
		j.flush()
		return lost
	})
	if err != stopped {
		t.Error(err)
	}
}

// TestTailGoesOn: tail -f continues over another connection where it was, however much it was
// printing when the first was lost.
func TestTailGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir+"/log", "first\n")
	writeFile(t, dir+"/other", "other\n")
	s := &screen{news: make(chan struct{}, 1)}
	clients := []*usftp.Client{startServer(t, dir), startServer(t, dir), startServer(t, dir)}
	more := strings.Repeat("a line of the log\n", 20_000)
	out := &losing{screen: s}
	env := &Env{Client: clients[0], Out: out, Say: func(line string) { t.Error(line) }}
	out.lose = func() { env.Client.Close() }
	n := 0
	env.Renew = func(error, bool) *usftp.Client {
		if n++; n >= len(clients) {
			return nil
		}
		return clients[n]
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- env.Steadily(false, func() error {
			return Tail(ctx, env, TailOptions{Follow: true, Interval: time.Millisecond,
				HeadOptions: HeadOptions{Count: 10}}, []string{"log", "other"})
		})
	}()
	// The heading waits in the buffer, so that what follows it takes several writes.
	shown := "==> log <==\nfirst\n\n==> other <==\nother\n"
	s.await(t, shown)
	appendTo(t, dir+"/log", more)
	shown += "\n==> log <==\n" + more
	s.await(t, shown)
	appendTo(t, dir+"/log", "last\n")
	s.await(t, shown+"last\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || n == 0 {
		t.Errorf("%v, after %d replacements", err, n)
	}
}

// losing loses the connection while much is printed, once for each of the first two pieces.
type losing struct {
	*screen
	lose func()
	lost int
}

func (l *losing) Write(p []byte) (int, error) {
	if len(p) > 1000 && l.lost < 2 {
		l.lost++
		l.lose()
	}
	return l.screen.Write(p)
}
