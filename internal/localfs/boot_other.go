//go:build !linux && !darwin && !freebsd

package localfs

// BootID identifies this boot of the machine, "" if unknown.
var BootID = func() string { return "" }
