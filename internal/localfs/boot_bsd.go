//go:build darwin || freebsd

package localfs

import (
	"encoding/hex"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// BootID identifies this boot of the machine, "" if unknown. Setting the clock may change it.
var BootID = sync.OnceValue(func() string {
	name := "kern.boottime"
	if runtime.GOOS == "darwin" {
		name = "kern.bootsessionuuid"
	}
	id, _ := unix.SysctlRaw(name)
	return hex.EncodeToString(id)
})
