package verb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// The verbs that use many files or directories at once are right on a host that gives one handle to
// several of them, and they do not wait for themselves.
func TestSharedHandles(t *testing.T) {
	var names []string
	contents := make(map[string]string)
	for i := range 60 {
		name := fmt.Sprintf("/t/%d/%02d", i%6, i)
		names = append(names, name)
		contents[name] = strings.Repeat(name+"\n", 1+i%3*20_000)
	}
	verbs := map[string]func(r *rig, t *testing.T) string{
		"cat": func(r *rig, t *testing.T) (want string) {
			ok(t, Concatenate(t.Context(), r.Env, ConcatenateOptions{}, names))
			for _, name := range names {
				want += contents[name]
			}
			return want
		},
		"tail": func(r *rig, t *testing.T) (want string) {
			o := TailOptions{HeadOptions: HeadOptions{Count: 1, Quiet: true}}
			ok(t, Tail(t.Context(), r.Env, o, names))
			for _, name := range names {
				want += name + "\n"
			}
			return want
		},
		"head": func(r *rig, t *testing.T) (want string) {
			ok(t, Head(t.Context(), r.Env, HeadOptions{Count: 1, Quiet: true}, names))
			for _, name := range names {
				want += name + "\n"
			}
			return want
		},
		"ls": func(r *rig, t *testing.T) (want string) {
			ok(t, List(t.Context(), r.Env, ListOptions{Recursive: true}, []string{"/t"}))
			want = "/t:\n0\n1\n2\n3\n4\n5\n"
			for d := range 6 {
				want += fmt.Sprintf("\n/t/%d:\n", d)
				for i := d; i < 60; i += 6 {
					want += fmt.Sprintf("%02d\n", i)
				}
			}
			return want
		},
	}
	for name, verb := range verbs {
		for _, handles := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d handles", name, handles), func(t *testing.T) {
				onSharedHandles(t, handles, contents, func(t *testing.T, r *rig,
					_ *sftptest.Scripted) {
					began := time.Now()
					want := verb(r, t)
					if out, said := r.take(); out != want || said != "" {
						t.Errorf("%d bytes were printed, want %d: %.200q; said %q", len(out),
							len(want), out, said)
					}
					if took := time.Since(began); took > 30*time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
	onSharedHandles(t, 1, contents, func(t *testing.T, r *rig, server *sftptest.Scripted) {
		ok(t, Remove(t.Context(), r.Env, RemoveOptions{Recursive: true}, []string{"/t"}))
		if left := server.Files.List(); slices.Contains(left, "/t/") {
			t.Errorf("left: %q", left)
		}
	})
}

// Of files that would be held open together, the first is followed and the others are refused.
func TestFollowWithSharedHandles(t *testing.T) {
	contents := map[string]string{"/a": "a\n", "/b": "b\n"}
	onSharedHandles(t, 1, contents, func(t *testing.T, r *rig, _ *sftptest.Scripted) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		o := TailOptions{Follow: true, HeadOptions: HeadOptions{Count: 9, Quiet: true}}
		err := Tail(ctx, r.Env, o, []string{"/a", "/b"})
		out, said := r.take()
		if !errors.Is(err, context.DeadlineExceeded) || out != "a\n" ||
			!strings.HasPrefix(said, "cannot read /b: ") ||
			!strings.Contains(said, "one handle to several") {
			t.Errorf("the error is %v, printed: %q, said: %q", err, out, said)
		}
	})
}

// TestFewHandles: files that a host refuses while others are open are printed and touched all the
// same.
func TestFewHandles(t *testing.T) {
	var names, fresh []string
	want := ""
	for i := range 40 {
		names, fresh = append(names, fmt.Sprint("/f", i)), append(fresh, fmt.Sprint("/n", i))
		want += fmt.Sprintln("text", i)
	}
	first := HeadOptions{Count: 1, Quiet: true}
	for name, verb := range map[string]func(t *testing.T, r *rig) error{
		"cat": func(t *testing.T, r *rig) error {
			return Concatenate(t.Context(), r.Env, ConcatenateOptions{}, names)
		},
		"head": func(t *testing.T, r *rig) error { return Head(t.Context(), r.Env, first, names) },
		"tail": func(t *testing.T, r *rig) error {
			return Tail(t.Context(), r.Env, TailOptions{HeadOptions: first}, names)
		},
		"touch": func(t *testing.T, r *rig) error {
			err := Touch(t.Context(), r.Env, TouchOptions{}, fresh)
			return cmp.Or(err, Concatenate(t.Context(), r.Env, ConcatenateOptions{},
				slices.Concat(fresh, names)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := sftptest.NewScripted(sftptest.Script{Extensions: []wire.ExtensionPair{},
					Limits: &wire.LimitsReply{MaxOpenHandles: 3}})
				for i, name := range names {
					server.Files.WriteFile(name, []byte(fmt.Sprintln("text", i)))
				}
				client := clientOf(t, server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond,
					ToClient: time.Millisecond}))
				defer server.Close()
				r := newRig(client)
				err := verb(t, r)
				if out, said := r.take(); err != nil || out != want || said != "" {
					t.Errorf("%v, printed: %q, said: %q", err, out, said)
				}
			})
		})
	}
}

// TestDenied: operands that a host refuses for another reason take as long as one after the other,
// and do not have others read many times.
func TestDenied(t *testing.T) {
	for denied, every := range map[string]int{"all": 1, "every second": 2, "few": 50} {
		t.Run(denied, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := sftptest.Script{Extensions: []wire.ExtensionPair{}}
				var names []string
				want, refused := "", 0
				for i := range 200 {
					name := fmt.Sprint("/f", i)
					names = append(names, name)
					if i%every > 0 {
						want += name
						continue
					}
					refused++
					script.Faults = append(script.Faults, sftptest.Fault{On: wire.TypeOpen,
						Path: name, Do: sftptest.Refuse(wire.PermissionDenied, "no")})
				}
				server := sftptest.NewScripted(script)
				for _, name := range names {
					server.Files.WriteFile(name, []byte(name))
				}
				client := clientOf(t, server.Dial(sftptest.LinkConfig{ToServer: roundTrip / 2,
					ToClient: roundTrip / 2}))
				defer server.Close()
				r := newRig(client)
				alone := trips(func() {
					for _, name := range names {
						Concatenate(t.Context(), r.Env, ConcatenateOptions{}, []string{name})
					}
				})
				r.take()
				server.ForgetRequests()
				took := trips(func() { Concatenate(t.Context(), r.Env, ConcatenateOptions{}, names) })
				out, said := r.take()
				if out != want || strings.Count(said, "cannot read") != refused {
					t.Errorf("printed: %q, said: %q", out, said)
				}
				opens := len(server.Requests(wire.TypeOpen))
				if took > 1.1*alone || opens > 2*len(names) {
					t.Errorf("%v round trips, one by one %v; %d OPENs", took, alone, opens)
				}
			})
		})
	}
}

func onSharedHandles(t *testing.T, handles int, contents map[string]string,
	f func(t *testing.T, r *rig, server *sftptest.Scripted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewScripted(sftptest.Script{SharedHandles: handles})
		for name, data := range contents {
			server.Files.WriteFile(name, []byte(data))
		}
		client := clientOf(t, server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond,
			ToClient: time.Millisecond}))
		defer server.Close()
		f(t, newRig(client), server)
	})
}
