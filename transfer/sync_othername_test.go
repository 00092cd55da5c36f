package transfer_test

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// TestSyncFromASourceThatIgnoresCase: of two names that are one at the source, the source can have
// one only, so the target's other file may be the last of its kind, and stays, also one of the same
// size and time, as files of an archive often are. What was renamed only in case goes.
func TestSyncFromASourceThatIgnoresCase(t *testing.T) {
	stored := make(map[string]string)
	files := foldFS{memfs.New(0), func(name string) string {
		return cmp.Or(stored[strings.ToLower(name)], name)
	}}
	var reads atomic.Int64
	host, _ := deltaHostOf(t, openedFS{files, "/src/Readme", &reads}, nil)
	dst := t.TempDir()
	at := time.Unix(1_700_000_000, 0)
	for _, name := range []string{"/src", "/src/DIR", "/src/README", "/src/Two", "/src/DIR/file",
		"/src/DIR/other"} {
		stored[strings.ToLower(name)] = name
		if name == "/src" || name == "/src/DIR" {
			if err := host.Client.Mkdir(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		putText(host.Client, name, "text")
		if err := host.Client.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := host.Client.Stat("/src/dir/FILE"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"Readme": "text", "two": "TEXT",
		"Dir/file": "text", "Dir/other": "another text", "Dir/gone": "gone", "gone": "gone"} {
		name = filepath.Join(dst, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o644), os.Chtimes(name, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dst, "README")); !errors.Is(err, fs.ErrNotExist) {
		return // so does this system
	}
	var warned []string
	options := transfer.SyncOptions{Delete: true, MaxDelete: 10}
	options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Warning {
			warned = append(warned, e.Target)
		}
	}
	for range 2 {
		warned = nil
		if _, err := transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(host, "/src"),
			options); err != nil {
			t.Fatal(err)
		}
		want := []string{"DIR", "DIR/file", "DIR/other", "Dir", "Dir/other", "README", "Two", "two"}
		if have := filesIn(dst); !slices.Equal(have, want) {
			t.Fatalf("the target has %q, want %q", have, want)
		}
		if text, err := os.ReadFile(filepath.Join(dst, "two")); string(text) != "TEXT" {
			t.Errorf("two is %q, %v", text, err)
		}
		if len(warned) != 3 { // Dir, its file, two
			t.Errorf("warnings: %q", warned)
		}
	}
	if got := reads.Load(); got != 1 {
		t.Errorf("README was read %d times to compare it with Readme", got)
	}
}

// An openedFS counts how often a file is opened by a name.
type openedFS struct {
	foldFS
	name  string
	count *atomic.Int64
}

func (o openedFS) Open(ctx context.Context, path string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	if path == o.name {
		o.count.Add(1)
	}
	return o.foldFS.Open(ctx, path, flags, attrs)
}
