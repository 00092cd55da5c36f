package transfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/transfer"
)

// notOfWindows are names that a host can have, and Windows takes for something else.
var notOfWindows = []string{"CON", "COM1.txt", "plain:stream", "plain::$DATA", "plain.", "plain ",
	`a\plain`, "a\x01", "\xff", "\xfe", "LONGNA~1.TXT"}

// TestNamesThatWindowsCannotHold: each is refused, and nothing else is written in its place. A sync
// back to the host deletes none of them there, since its source could not have them.
func TestNamesThatWindowsCannotHold(t *testing.T) {
	host, _ := deltaHostOf(t, memfs.New(0), nil)
	for _, dir := range []string{"/src", "/src/dir"} {
		if err := host.Client.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	putText(host.Client, "/src/plain", "plain")
	putText(host.Client, "/src/long name 1.txt", "long")
	for _, name := range notOfWindows {
		putText(host.Client, "/src/"+name, "other")
		putText(host.Client, "/src/dir/"+name, "other")
	}
	above := t.TempDir()
	dst := filepath.Join(above, "dst")
	failed := 0
	options := transfer.SyncOptions{Delete: true, MaxDelete: 100}
	options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Failed {
			failed++
			// Of two that are not UTF-8, the second would also take the first one's name.
			if !errors.Is(e.Err, localfs.ErrBadName) &&
				!strings.Contains(e.Err.Error(), "takes its name for") {
				t.Error(e.Err)
			}
		}
	}
	transfer.Sync(t.Context(), transfer.Local(dst), transfer.Remote(host, "/src"), options)
	if want := 2 * len(notOfWindows); failed != want {
		t.Errorf("%d names were refused, want %d", failed, want)
	}
	if have := filesIn(above); !slices.Equal(have, []string{"dst", `dst\dir`, `dst\long name 1.txt`,
		`dst\plain`}) {
		t.Errorf("there are %q", have)
	}
	if text, err := os.ReadFile(filepath.Join(dst, "plain")); err != nil || string(text) != "plain" {
		t.Errorf("plain is %q, %v", text, err)
	}

	before := namesOn(t, host.Client, "/src") // with those below
	putText(host.Client, "/src/extra", "extra")
	putText(host.Client, "/src/dir/extra", "extra")
	if err := os.Remove(filepath.Join(dst, "dir")); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.Sync(t.Context(), transfer.Remote(host, "/src"), transfer.Local(dst),
		options); err != nil {
		t.Fatal(err)
	}
	if after := namesOn(t, host.Client, "/src"); !slices.Equal(after, before) {
		t.Errorf("of %q there are %q", before, after)
	}
}

// TestTargetsThatWindowsTakesForOthers: nobody gets a device, a stream or another file by naming it
// as the target either.
func TestTargetsThatWindowsTakesForOthers(t *testing.T) {
	host, _ := deltaHostOf(t, memfs.New(0), nil)
	putText(host.Client, "/source", "new")
	dir := t.TempDir()
	fill(t, dir, "plain")
	for _, name := range []string{"plain:stream", "plain::$DATA", "plain.", "COM1.txt", "new:stream"} {
		if _, err := transfer.Copy(t.Context(), transfer.Local(dir+`\`+name),
			transfer.Remote(host, "/source"), transfer.Options{}); err == nil {
			t.Errorf("%q is written", name)
		}
	}
	if have := filesIn(dir); !slices.Equal(have, []string{"plain"}) {
		t.Errorf("there are %q", have)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "plain")); string(text) == "new" {
		t.Errorf("plain is %q, %v", text, err)
	}
}

// TestSourcesThatWindowsTakesForOthers: other systems can make them there. They are not read, since
// something else would be, and what the target has instead is not deleted.
func TestSourcesThatWindowsTakesForOthers(t *testing.T) {
	src := t.TempDir()
	fill(t, src, "plain", "other")
	if err := os.WriteFile(`\\?\`+src+`\plain.`, []byte("dot"), 0o644); err != nil {
		t.Fatal(err)
	}
	if have := filesIn(src); !slices.Contains(have, "plain.") {
		t.Fatalf("there are %q", have)
	}
	host, _ := deltaHostOf(t, memfs.New(0), nil)
	if err := host.Client.Mkdir("/dst"); err != nil {
		t.Fatal(err)
	}
	putText(host.Client, "/dst/plain.", "old")
	putText(host.Client, "/dst/extra", "extra")
	_, err := transfer.Sync(t.Context(), transfer.Remote(host, "/dst"), transfer.Local(src),
		transfer.SyncOptions{Delete: true})
	if err == nil {
		t.Error("nothing failed")
	}
	if have := namesOn(t, host.Client, "/dst"); !slices.Equal(have, []string{"dst", "extra", "other",
		"plain", "plain."}) {
		t.Errorf("there are %q", have)
	}
	if text := textOf(t, host.Client, "/dst/plain."); text != "old" {
		t.Errorf("plain. is %q", text)
	}
}
