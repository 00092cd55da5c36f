//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package ui

// echoOff leaves it to term.ReadPassword to turn the echo off.
func echoOff(int) error { return nil }
