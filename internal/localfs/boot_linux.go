package localfs

import (
	"os"
	"strings"
	"sync"
)

// BootID identifies this boot of the machine. Data written since then is still there, whatever
// became of the process that wrote it.
var BootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})
