//go:build !linux

package transfer

// bootID would tell this start of the machine from others.
func bootID() string { return "" }
