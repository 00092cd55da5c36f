package verb

import (
	"context"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
)

// TestRoundTrips limits how many round trips the recursive verbs take for 5,000 files. A directory
// below another takes at least two: one to open it, and one to list it.
func TestRoundTrips(t *testing.T) {
	for _, verb := range []struct {
		name  string
		run   func(ctx context.Context, r *rig) error
		lines int // at least this many lines of output
	}{
		{"ls -lR", func(ctx context.Context, r *rig) error {
			return List(ctx, r.Env, ListOptions{Long: true, Recursive: true}, []string{"/t"})
		}, manyFiles},
		{"du", func(ctx context.Context, r *rig) error {
			return DiskUsage(ctx, r.Env, DiskUsageOptions{Depth: -1}, []string{"/t"})
		}, 1},
		{"find", func(ctx context.Context, r *rig) error {
			e, err := ParseExpression(strings.Fields("-name *5 -print"))
			if err != nil {
				return err
			}
			return Find(ctx, r.Env, e, []string{"/t"})
		}, manyFiles / 10},
		{"find -delete", func(ctx context.Context, r *rig) error {
			e, err := ParseExpression([]string{"-delete"})
			if err != nil {
				return err
			}
			return Find(ctx, r.Env, e, []string{"/t"})
		}, 0},
		{"chmod -R", func(ctx context.Context, r *rig) error {
			return ChangeMode(ctx, r.Env, ChangeModeOptions{Recursive: true, Mode: "go-w"},
				[]string{"/t"})
		}, 0},
		{"chown -R", func(ctx context.Context, r *rig) error {
			return ChangeOwner(ctx, r.Env, ChangeOwnerOptions{Recursive: true, Owner: "1:1"},
				[]string{"/t"})
		}, 0},
		{"rm -r", func(ctx context.Context, r *rig) error {
			return Remove(ctx, r.Env, RemoveOptions{Recursive: true}, []string{"/t"})
		}, 0},
	} {
		for _, s := range shapes {
			t.Run(verb.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				onShape(t, s, openSSH, func(r *rig, server *sftptest.Scripted) {
					var err error
					took := trips(func() { err = verb.run(context.Background(), r) })
					out, said := r.take()
					ok(t, err)
					t.Logf("%.1f round trips", took)
					most := map[string]float64{"wide": 13, "directories": 14, "deep": 72}[s.name]
					if took > most || said != "" {
						t.Errorf("%.1f round trips, at most %v; said %q", took, most, said)
					}
					if lines := strings.Count(out, "\n"); lines < verb.lines {
						t.Errorf("%d lines", lines)
					}
					_, err = r.Client.Lstat("/t")
					if gone := verb.name == "rm -r" ||
						verb.name == "find -delete"; gone != (err != nil) {
						t.Errorf("Lstat afterwards: %v", err)
					}
				})
			})
		}
	}
}

// TestRoundTripsOfSeveral limits how many round trips the verbs take for 50 operands: as many as
// for one.
func TestRoundTripsOfSeveral(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, shapes[0].path(i))
	}
	last := TailOptions{HeadOptions: HeadOptions{Count: 1}}
	for _, verb := range []struct {
		name string
		run  func(ctx context.Context, r *rig) error
		most float64
	}{
		{"cat", func(ctx context.Context, r *rig) error {
			return Concatenate(ctx, r.Env, ConcatenateOptions{}, names)
		}, 4},
		{"tail", func(ctx context.Context, r *rig) error { return Tail(ctx, r.Env, last, names) }, 4},
		{"touch", func(ctx context.Context, r *rig) error {
			return Touch(ctx, r.Env, TouchOptions{}, names)
		}, 2},
		{"touch new", func(ctx context.Context, r *rig) error {
			var fresh []string
			for _, name := range names {
				fresh = append(fresh, name+".new")
			}
			return Touch(ctx, r.Env, TouchOptions{}, fresh)
		}, 3},
		{"rm", func(ctx context.Context, r *rig) error {
			return Remove(ctx, r.Env, RemoveOptions{}, names)
		}, 2},
	} {
		t.Run(verb.name, func(t *testing.T) {
			t.Parallel()
			onShape(t, shapes[0], openSSH, func(r *rig, server *sftptest.Scripted) {
				var err error
				for _, name := range names {
					server.Files.WriteFile(name, []byte("text\n"))
				}
				took := trips(func() { err = verb.run(context.Background(), r) })
				_, said := r.take()
				if ok(t, err); took > verb.most || said != "" {
					t.Errorf("%.1f round trips, at most %v; said %q", took, verb.most, said)
				}
			})
		})
	}
}
