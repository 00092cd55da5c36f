package hooks

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// actAs makes this thread use files as another user.
func actAs(user int) { syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(user), 0, 0) }

// TestGuardEmptiesNothing: a file that could only be changed where it is is not emptied before the
// client is told that it must not be changed.
func TestGuardEmptiesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o755) })
	files, err := osfs.NewAtomic(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	hook := Hook{Name: "check", On: []Kind{Accept}, Command: []string{"true"}}
	h := New([]*Hook{&hook}, nil, slog.New(slog.DiscardHandler))
	guarded, err := h.Guard("ann", "/", files)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // who may make files everywhere
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		actAs(65534)
	}
	f, err := guarded.(server.Opener).Open(t.Context(), "/f",
		wire.OpenWrite|wire.OpenCreate|wire.OpenTruncate, wire.Attrs{})
	if err != errInPlace {
		t.Errorf("opened %v, %v", f, err)
	}
	actAs(os.Geteuid())
	if got, err := os.ReadFile(name); string(got) != "text" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}
