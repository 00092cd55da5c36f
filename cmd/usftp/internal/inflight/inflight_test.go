package inflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// A rig copies the files of a directory to a scripted host, or from there.
type rig struct {
	t       *testing.T
	server  *sftptest.Scripted
	host    pool.Host
	local   string
	names   []string
	down    bool
	looked  func() // is called when the files have been looked at
	options transfer.Options
	events  []string
	left    []string // temporary files that events name
	failed  int      // files
	alone   int
	taken   string // a name that is taken once it is copied
}

const trip = time.Second

// onRig runs f in a bubble, with this many files at both ends.
func onRig(t *testing.T, script sftptest.Script, files int, f func(r *rig)) {
	t.Parallel()
	local := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, local: local, server: sftptest.NewScripted(script)}
		for i := range files {
			name := fmt.Sprintf("f%03d", i)
			r.names = append(r.names, name)
			r.server.Files.WriteFile("/from/"+name, []byte(name))
			if err := os.WriteFile(filepath.Join(local, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		r.server.Files.WriteFile("/to/before", nil)
		link := r.server.Dial(sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		client, err := usftp.NewClientPipe(link, link)
		if err != nil {
			t.Fatal(err)
		}
		defer r.server.Close()
		defer client.Close()
		r.host = pool.Host{Client: client, Name: "host", Quirks: new(pool.Quirks)}
		f(r)
	})
}

// paths returns the paths of a file at both ends.
func (r *rig) paths(name string) (from, to string) {
	if r.down {
		return "/from/" + name, filepath.Join(r.local, "new", name)
	}
	return filepath.Join(r.local, name), "/to/" + name
}

func (r *rig) copy(ctx context.Context, name string, o transfer.Options) error {
	from, to := r.paths(name)
	src, dst := transfer.Local(from), transfer.Remote(r.host, to)
	if r.down {
		src, dst = transfer.Remote(r.host, from), transfer.Local(to)
	}
	o.NoTargetDirectory = true
	_, err := transfer.Copy(ctx, dst, src, o)
	return err
}

// run copies all files, and returns how many round trips that takes.
func (r *rig) run(ctx context.Context) (trips int) {
	began := time.Now()
	if r.down {
		os.Mkdir(filepath.Join(r.local, "new"), 0o755)
	}
	look := func(names []string) []int64 {
		from, to := End{}, End{Client: r.host.Client}
		if r.down {
			from, to = to, from
		}
		for _, name := range names {
			source, target := r.paths(name)
			from.Names, to.Names = append(from.Names, source), append(to.Names, target)
		}
		sizes := Look(from, to)
		if r.looked != nil {
			r.looked()
		}
		return sizes
	}
	copies := 0
	CopyAll(ctx, AtOnce(r.host.Client), r.event, r.names, look, func(name string) Copy {
		copies++
		first := copies == 1
		return Copy{Name: name,
			Check: func() bool {
				taken := name == r.taken && !first
				if taken {
					r.events = append(r.events, "taken "+name)
				}
				return !taken
			},
			Beside: func(again bool) func(func(transfer.Event)) error {
				if again {
					return nil // nothing replaces the connection
				}
				return func(events func(transfer.Event)) error {
					return r.copy(ctx, name, Options(r.options, events))
				}
			},
			Alone: func(events func(transfer.Event), _ bool) bool {
				r.alone++
				o := r.options
				o.Events = events
				err := r.copy(ctx, name, o)
				r.ended(err)
				return err == nil
			},
			Ended: r.ended}
	})
	return int(time.Since(began) / trip)
}

func (r *rig) ended(err error) {
	if err != nil {
		r.failed++
	}
}

func (r *rig) event(e transfer.Event) {
	if e.LeftBehind != "" {
		r.left = append(r.left, e.LeftBehind)
	}
	switch e.Kind {
	case transfer.Started, transfer.Done, transfer.Failed:
		r.events = append(r.events, string(e.Kind)+" "+filepath.Base(e.Source))
	}
}

// check makes sure that the files were reported in turn, and have arrived, except for those that
// failed.
func (r *rig) check(failed ...string) {
	r.t.Helper()
	var want []string
	for _, name := range r.names {
		if slices.Contains(failed, name) {
			want = append(want, "failed "+name)
			continue
		}
		want = append(want, "started "+name, "done "+name)
		var got []byte
		if _, to := r.paths(name); r.down {
			got, _ = os.ReadFile(to)
		} else {
			got, _ = r.host.Client.ReadFile(to)
		}
		if string(got) != name {
			r.t.Fatalf("%s holds %q", name, got)
		}
	}
	if !slices.Equal(r.events, want) {
		r.t.Errorf("reported: %q, want %q", r.events, want)
	}
	if r.failed != len(failed) {
		r.t.Errorf("%d files failed", r.failed)
	}
}

// TestRoundTrips: many files take hardly more round trips than one.
func TestRoundTrips(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprint("down ", down), func(t *testing.T) {
			onRig(t, sftptest.Script{}, 100, func(r *rig) {
				r.down = down
				if trips := r.run(r.t.Context()); trips > 7 {
					r.t.Errorf("%d round trips", trips)
				}
				r.check()
			})
		})
	}
}

// TestFewHandles: files that a host refuses while others are open are copied all the same.
func TestFewHandles(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprint("down ", down), func(t *testing.T) {
			limits := wire.LimitsReply{MaxOpenHandles: 3}
			onRig(t, sftptest.Script{Limits: &limits, Extensions: []wire.ExtensionPair{}}, 40,
				func(r *rig) {
					r.down = down
					r.run(r.t.Context())
					if r.alone == 0 {
						r.t.Error("nothing was refused")
					}
					r.check()
				})
		})
	}
}

// TestFailureInTurn: a file that cannot be copied is reported once, after those before it.
func TestFailureInTurn(t *testing.T) {
	onRig(t, sftptest.Script{}, 30, func(r *rig) {
		r.server.Files.WriteFile("/to/f007/file", nil)
		r.run(r.t.Context())
		r.check("f007")
		if r.alone != 1 {
			r.t.Errorf("%d files were copied alone", r.alone)
		}
	})
}

// TestManyFailures: files that all fail take hardly longer than one after another.
func TestManyFailures(t *testing.T) {
	onRig(t, sftptest.Script{}, 2*mostFiles, func(r *rig) {
		for _, name := range r.names {
			r.server.Files.WriteFile("/to/"+name+"/file", nil)
		}
		began := time.Now()
		for _, name := range r.names {
			r.copy(r.t.Context(), name, r.options)
		}
		most := int(time.Since(began)/trip) * 11 / 10
		if trips := r.run(r.t.Context()); trips > most {
			r.t.Errorf("%d round trips, more than %d", trips, most)
		}
		r.check(r.names...)
	})
}

// TestInterruption: one of the files in flight says that everything was interrupted.
func TestInterruption(t *testing.T) {
	onRig(t, sftptest.Script{}, 30, func(r *rig) {
		ctx, cancel := context.WithCancelCause(r.t.Context())
		time.AfterFunc(5*trip/2, func() { cancel(errors.New("enough")) })
		r.run(ctx)
		if want := []string{"failed f000"}; !slices.Equal(r.events, want) || r.failed != len(r.names) {
			r.t.Errorf("reported: %q, want %q; %d files failed", r.events, want, r.failed)
		}
	})
}

// TestLostForGood: what the files in flight have left is reported if nothing replaces the
// connection.
func TestLostForGood(t *testing.T) {
	lost := sftptest.Fault{On: wire.TypeExtended, Extension: wire.ExtPosixRename,
		Do: sftptest.Hangup()}
	onRig(t, sftptest.Script{Faults: []sftptest.Fault{lost}}, 5, func(r *rig) {
		r.run(r.t.Context())
		r.events = slices.DeleteFunc(r.events, func(e string) bool { return e == "started f000" })
		r.check(r.names...)
	})
}

// TestLeftoversAreNamed: what is left after the connection was lost for good is named, also of the
// file that is tried again, and of files of which nothing is known to have arrived.
func TestLeftoversAreNamed(t *testing.T) {
	for _, on := range []wire.Type{wire.TypeWrite, wire.TypeExtended} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			lost := sftptest.Fault{On: on, Do: sftptest.Hangup()}
			if on == wire.TypeExtended {
				lost.Extension = wire.ExtPosixRename
			}
			onRig(t, sftptest.Script{Faults: []sftptest.Fault{lost}}, 5, func(r *rig) {
				r.run(r.t.Context())
				var there []string
				for _, name := range r.server.Files.List() {
					if strings.Contains(name, ".usftp-") {
						there = append(there, name)
					}
				}
				slices.Sort(r.left)
				if len(there) != len(r.names) || !slices.Equal(r.left, there) {
					t.Errorf("named: %q, left: %q", r.left, there)
				}
			})
		})
	}
}

// TestTakenInTurn: that a name is taken is said after what became of the files before it.
func TestTakenInTurn(t *testing.T) {
	script := sftptest.Script{Extensions: []wire.ExtensionPair{}}
	onRig(t, script, private.FewFiles+10, func(r *rig) {
		r.taken = "f000"
		r.names = append(r.names, r.taken)
		r.run(r.t.Context())
		last := len(r.names) - 1
		r.names = r.names[:last]
		if got := r.events[len(r.events)-1]; got != "taken f000" {
			r.t.Errorf("reported last: %s", got)
		}
		r.events = slices.DeleteFunc(r.events, func(e string) bool { return e == "taken f000" })
		r.check()
	})
}

// TestLinksAlone: a link is copied alone, since it may lead to where another file goes.
func TestLinksAlone(t *testing.T) {
	onRig(t, sftptest.Script{}, 2, func(r *rig) {
		link := filepath.Join(r.local, "link")
		testenv.Symlink(r.t, "f000", link)
		if err := r.host.Client.Symlink("f000", "/from/link"); err != nil {
			r.t.Fatal(err)
		}
		here := End{Names: []string{link, filepath.Join(r.local, "f001")}}
		there := End{Client: r.host.Client, Names: []string{"/from/link", "/from/f001"}}
		none := []string{"/to/link", "/to/f001"}
		for _, from := range []End{here, there} {
			got := Look(from, End{Client: r.host.Client, Names: none})
			if want := []int64{-1, 4}; !slices.Equal(got, want) {
				r.t.Errorf("%q: %d, want %d", from.Names, got, want)
			}
		}
	})
}

// TestLinkSinceLook: a target that becomes a link to another file's after it was looked at is
// replaced, so that neither file gets the contents of the other.
func TestLinkSinceLook(t *testing.T) {
	for name, script := range map[string]sftptest.Script{"posix-rename": {},
		"rename": {Extensions: []wire.ExtensionPair{}}, "down": {}} {
		t.Run(name, func(t *testing.T) {
			onRig(t, script, 2, func(r *rig) {
				r.down = name == "down"
				r.looked = func() {
					_, at := r.paths("f000")
					if r.down {
						testenv.Symlink(r.t, "f001", at)
					} else if err := r.host.Client.Symlink("f001", at); err != nil {
						r.t.Fatal(err)
					}
				}
				r.run(r.t.Context())
				r.check()
			})
		})
	}
}

// TestLooksAhead: sources are looked at together, but not too many, and none twice.
func TestLooksAhead(t *testing.T) {
	t.Parallel()
	sources := make([]int, 5*mostLooked/2)
	for i := range sources {
		sources[i] = i
	}
	var looks []string
	look := func(next []int) []int64 {
		looks = append(looks, fmt.Sprintf("%d+%d", next[0], len(next)))
		return make([]int64, max(1, len(next)-1))
	}
	CopyAll(t.Context(), 2, nil, sources, look, func(i int) Copy {
		return Copy{Name: fmt.Sprint(i), Check: func() bool { return false }}
	})
	if want := []string{"0+256", "255+256", "510+130", "639+1"}; !slices.Equal(looks, want) {
		t.Errorf("looked at %v, want %v", looks, want)
	}
}
