package sync

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/transfer"
)

// More changes at once than the system keeps lead to a comparison of everything, in which nothing is
// missed; and directories that came meanwhile are watched from then on.
func TestWatchOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	late := filepath.Join(root, "late", "deep")
	round, overflowed := 0, 0
	wasAll := func(o transfer.SyncOptions) bool { return o.Within == nil }
	sync := func(o transfer.SyncOptions) (s transfer.Summary, err error) {
		switch round++; {
		case round == 1: // while it lasts, nobody takes events
			for i := range most + 3*4096 { // what the watcher keeps besides
				os.Chmod(filepath.Join(root, []string{"a", "b"}[i%2]), 0o600+os.FileMode(i/2%2))
			}
			if err := os.MkdirAll(late, 0o755); err != nil {
				t.Error(err)
			}
		case overflowed == 0 && wasAll(o):
			overflowed = round
			os.WriteFile(filepath.Join(late, "file"), nil, 0o600)
		case overflowed > 0 && (wasAll(o) || o.Within.Dirs["late/deep"] || slices.Contains(o.Within.Trees, "late")):
			cancel()
		}
		return s, nil
	}
	err = watch(ctx, root, transfer.SyncOptions{}, sync, func(string) {})
	if !errors.Is(err, context.Canceled) || overflowed == 0 {
		t.Errorf("%d rounds, everything was compared in round %d: %v", round, overflowed, err)
	}
}
