//go:build !linux

package localfs

// BootID identifies this boot of the machine, "" if that is not known.
func BootID() string { return "" }
