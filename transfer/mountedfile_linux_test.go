package transfer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/transfer"
)

// TestAFileThatIsMounted: a file that is mounted by itself, as some are in containers, cannot be
// replaced, and the error says how it can be written.
func TestAFileThatIsMounted(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, "src", "real", "dst")
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	if err := unix.Mount(filepath.Join(dir, "real"), dst, "", unix.MS_BIND, ""); err != nil {
		testenv.Unavailable(t, err) // only root may
	}
	defer unix.Unmount(dst, 0)
	options := transfer.Options{}
	_, err := transfer.Copy(t.Context(), transfer.Local(dst), transfer.Local(src), options)
	if err == nil || !strings.Contains(err.Error(), "PlaceDirect") {
		t.Errorf("replaced: %v", err)
	}
	options.Placement = transfer.PlaceDirect
	_, err = transfer.Copy(t.Context(), transfer.Local(dst), transfer.Local(src), options)
	if got, _ := os.ReadFile(filepath.Join(dir, "real")); err != nil || string(got) != src {
		t.Errorf("written in place: %q, %v", got, err)
	}
}
