package verb

import (
	"context"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
)

// TestRoundTrips bounds how many round trips the recursive verbs take for 20,000 files.
func TestRoundTrips(t *testing.T) {
	for _, verb := range []struct {
		name  string
		run   func(ctx context.Context, r *rig) error
		lines int                // of output; 0 if it does not matter
		most  map[string]float64 // by shape
		empty bool               // nothing is left
	}{
		{"ls -lR", func(ctx context.Context, r *rig) error {
			return List(ctx, r.Env, ListOptions{Long: true, Recursive: true}, []string{"/t"})
		}, manyFiles, map[string]float64{"wide": 12, "directories": 16, "deep": 130}, false},
		{"rm -r", func(ctx context.Context, r *rig) error {
			return Remove(ctx, r.Env, RemoveOptions{Recursive: true}, []string{"/t"})
		}, 0, map[string]float64{"wide": 18, "directories": 22, "deep": 130}, true},
	} {
		for _, s := range shapes {
			t.Run(verb.name+"/"+s.name, func(t *testing.T) {
				onShape(t, s, openSSH, func(r *rig, server *sftptest.Scripted) {
					var err error
					took := trips(func() { err = verb.run(context.Background(), r) })
					out, said := r.take()
					ok(t, err)
					t.Logf("%.1f round trips", took)
					if took > verb.most[s.name] || said != "" {
						t.Errorf("%.1f round trips, said %q", took, said)
					}
					if lines := strings.Count(out, "\n"); lines < verb.lines {
						t.Errorf("%d lines", lines)
					}
					if _, err := r.Client.Lstat("/t"); verb.empty != (err != nil) {
						t.Errorf("Lstat afterwards: %v", err)
					}
				})
			})
		}
	}
}
