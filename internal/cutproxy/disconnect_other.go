//go:build !linux

package cutproxy

// disconnect does nothing here: closing must do.
func disconnect(uintptr) {}
