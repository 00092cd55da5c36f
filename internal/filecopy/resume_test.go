package filecopy

import (
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
	for _, synced := range []bool{false, true} {
		if survived(&journal.Mark{Bytes: 40 << 20, Synced: synced}) != synced {
			t.Errorf("synced %v: it is continued, or is not", synced)
		}
	}
}
