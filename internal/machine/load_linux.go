package machine

import (
	"bytes"
	"os"
	"strconv"
)

// readMachineTime reads the first line of /proc/stat; see proc_stat(5).
func readMachineTime() (t machineTime) {
	stat, err := os.Open("/proc/stat")
	if err != nil {
		return t
	}
	defer stat.Close()
	var text [256]byte
	n, _ := stat.Read(text[:])
	line, _, _ := bytes.Cut(text[:n], []byte("\n"))
	const idle, iowait, steal = 4, 5, 8 // guest time, after these, is included in user time
	for i, field := range bytes.Fields(line) {
		ticks, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil || i > steal {
			continue
		}
		t.total += ticks
		if i != idle && i != iowait {
			t.busy += ticks
		}
	}
	return t
}
