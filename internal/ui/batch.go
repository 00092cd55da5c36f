package ui

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// IsBatch reports whether a program is a batch file of Windows. cmd.exe, which runs it, takes parts
// of its arguments for commands, however package exec quotes them.
func IsBatch(program string) bool {
	if path, err := exec.LookPath(program); err == nil {
		program = path // with its extension
	}
	end := strings.ToLower(filepath.Ext(strings.TrimRight(program, ". ")))
	return runtime.GOOS == "windows" && (end == ".bat" || end == ".cmd")
}

// batchText replaces what means something to cmd.exe.
var batchText = strings.NewReplacer(`"`, "'", "\n", " ", "\r", " ", "%", "_", "!", "_", "^", "_",
	"&", "_", "|", "_", "<", "_", ">", "_")
