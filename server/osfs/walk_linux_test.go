package osfs

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deep makes nested directories and returns the outermost one, open, and the path of the innermost.
func deep(t *testing.T, levels int) (root *os.File, name string) {
	t.Helper()
	root, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	at := int(root.Fd())
	for range levels {
		if err := unix.Mkdirat(at, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := openAt(at, "d", openDirectory, 0)
		if err != nil {
			t.Fatal(err)
		}
		if at != int(root.Fd()) {
			unix.Close(at)
		}
		at = next
	}
	unix.Close(at)
	return root, "/" + strings.Repeat("d/", levels-1) + "d"
}

// TestStepsOfAPath counts the directories that are opened: as many as the path has elements, not
// their square.
func TestStepsOfAPath(t *testing.T) {
	const levels = 800 // there and back is as long as a path may be
	root, name := deep(t, levels)
	back := strings.Repeat("/..", levels)
	for _, test := range []struct {
		name, path, want string
		steps            int
	}{
		{"down", name, name, levels},
		{"down and a little back", name + strings.Repeat("/..", maxHeld-1), "", levels + maxHeld},
		// Every maxHeld steps up the walk starts again at the top.
		{"down and back", name + back, "/", levels + levels + levels*levels/2/maxHeld + levels},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWalk(t.Context(), int(root.Fd()), test.path)
			defer w.close()
			got, err := w.realPath()
			if err != nil || test.want != "" && got != test.want {
				t.Errorf("resolved to %.40q, %v", got, err)
			}
			if w.steps > test.steps {
				t.Errorf("%d steps, want at most %d", w.steps, test.steps)
			}
			if len(w.held) > maxHeld {
				t.Errorf("%d directories are open", len(w.held))
			}
		})
	}
}

// TestEndlessPath: paths that links multiply come to an end.
func TestEndlessPath(t *testing.T) {
	root, name := deep(t, 1000)
	if err := unix.Symlinkat(name[1:]+strings.Repeat("/..", 600), int(root.Fd()), "link"); err != nil {
		t.Fatal(err)
	}
	w := newWalk(t.Context(), int(root.Fd()), strings.Repeat("link"+strings.Repeat("/..", 400)+"/", 3))
	defer w.close()
	if _, err := w.realPath(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("%v", err)
	}
	if w.steps > maxSteps+1 {
		t.Errorf("%d steps", w.steps)
	}
}

// TestPathObeysContext: the walk stops when its session has ended.
func TestPathObeysContext(t *testing.T) {
	root, name := deep(t, 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := newWalk(ctx, int(root.Fd()), name)
	defer w.close()
	if _, err := w.realPath(); !errors.Is(err, context.Canceled) || w.steps > 1 {
		t.Errorf("%d steps, %v", w.steps, err)
	}
}
