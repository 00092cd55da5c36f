//go:build !unix

package ui

// settleSignals does nothing: signals are not queued on this system.
func settleSignals() {}
