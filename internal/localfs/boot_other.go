//go:build !linux

package localfs

// BootID identifies this boot of the machine, "" if unknown.
func BootID() string { return "" }
