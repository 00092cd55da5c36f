package filecopy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/localfs"
)

// TestUnknownBoot: where nothing shows whether the machine has restarted, only data that is on the
// disk is continued.
func TestUnknownBoot(t *testing.T) {
	boot := localfs.BootID
	defer func() { localfs.BootID = boot }()
	localfs.BootID = func() string { return "" }
	file, err := os.Create(filepath.Join(t.TempDir(), "left"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 40 << 20
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	c := &Copy{Request: Request{Run: &Run{Ctx: t.Context()}}}
	for _, synced := range []bool{false, true} {
		n, err := proveLocal(c, file, new(input), &journal.Mark{Bytes: size, Synced: synced})
		if (err == nil) != synced || n > 0 != synced {
			t.Errorf("synced %v: it goes on from %d, %v", synced, n, err)
		}
	}
}
