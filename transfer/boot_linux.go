package transfer

import (
	"os"
	"strings"
	"sync"
)

// bootID is what tells this start of the machine from others: what the kernel was given to store is
// there as long as it lasts, whatever becomes of who gave it.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})
