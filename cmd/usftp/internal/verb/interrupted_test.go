package verb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// An impatient writer is a person who presses Ctrl-C as soon as something is shown.
type impatient struct {
	press func()
	shown int
}

func (w *impatient) Write(p []byte) (int, error) {
	w.press()
	w.shown += len(p)
	return len(p), nil
}

// TestInterruptedOutput: after Ctrl-C what is printed ends soon, however much there is. Only the
// buffer is printed, since it may tell what has been done.
func TestInterruptedOutput(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "long"), strings.Repeat("a line of text\n", 200_000))
	for i := range 2500 {
		writeFile(t, filepath.Join(dir, "many", fmt.Sprintf("%0200d", i)), "")
	}
	r := newRig(startServer(t, dir))
	list := func(o ListOptions) func(context.Context) error {
		return func(ctx context.Context) error { return List(ctx, r.Env, o, []string{"many"}) }
	}
	for name, run := range map[string]func(context.Context) error{
		"ls -1": list(ListOptions{}),
		"ls -l": list(ListOptions{Long: true}),
		"ls -C": list(ListOptions{Columns: true}),
		"cat": func(ctx context.Context) error {
			return Concatenate(ctx, r.Env, ConcatenateOptions{}, []string{"long"})
		},
		"cat -n": func(ctx context.Context) error {
			return Concatenate(ctx, r.Env, ConcatenateOptions{Number: true}, []string{"long"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			w := &impatient{press: cancel}
			r.Out = w
			if err := run(ctx); !errors.Is(err, context.Canceled) || w.shown == 0 ||
				w.shown > 3*outputBuffer {
				t.Errorf("%v, after %d bytes", err, w.shown)
			}
		})
	}
}
