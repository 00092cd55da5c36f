//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package ui

import "os"

// echoOff leaves turning the echo off to term.ReadPassword.
func echoOff(int) error { return nil }

// SignalsOff leaves it to the editor of lines.
func SignalsOff(*os.File) error { return nil }
