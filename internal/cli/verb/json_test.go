package verb

import (
	"strings"
	"testing"
)

// TestJSONLines: each verb prints one object per line, whatever it is about.
func TestJSONLines(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "text\n\xff\nend")
	r := newRig(startServer(t, dir))
	r.JSON, r.Host = true, "h"
	for name, run := range map[string]func() error{
		"cat":  func() error { return Concatenate(t.Context(), r.Env, ConcatenateOptions{}, []string{"f", "missing"}) },
		"head": func() error { return Head(t.Context(), r.Env, HeadOptions{Count: 1}, []string{"f"}) },
		"tail": func() error {
			return Tail(t.Context(), r.Env, TailOptions{HeadOptions: HeadOptions{Count: 1}}, []string{"f"})
		},
		"ls":   func() error { return List(t.Context(), r.Env, ListOptions{Recursive: true}, []string{"."}) },
		"stat": func() error { return Status(t.Context(), r.Env, StatusOptions{}, []string{"f"}) },
		"du": func() error {
			return DiskUsage(t.Context(), r.Env, DiskUsageOptions{All: true, Depth: -1}, []string{"."})
		},
		"df": func() error { return Space(t.Context(), r.Env, SpaceOptions{}, []string{"."}) },
		"mkdir": func() error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true}, []string{"x/y"})
		},
		"touch": func() error { return Touch(t.Context(), r.Env, TouchOptions{}, []string{"f"}) },
		"chmod": func() error {
			return ChangeMode(t.Context(), r.Env, ChangeModeOptions{Mode: "644"}, []string{"f", "missing"})
		},
		"ln": func() error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true}, []string{"f", "l"})
		},
	} {
		run()
		out, _ := r.take()
		if out == "" {
			t.Errorf("%s printed nothing", name)
		}
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, `{"v":1,"kind":"`) || !strings.HasSuffix(line, "}\n") || !strings.Contains(line, `"host":"h"`) {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}
