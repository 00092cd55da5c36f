//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package ui

import (
	"os"

	"golang.org/x/term"
)

// echoOff leaves turning the echo off to term.ReadPassword.
func echoOff(int) error { return nil }

// readHidden reads a line without showing it.
func readHidden(f *os.File) (string, error) {
	answer, err := term.ReadPassword(int(f.Fd()))
	return string(answer), err
}

// SignalsOff leaves it to the line editor.
func SignalsOff(*os.File) error { return nil }

func foreground(*os.File) bool { return true }

func continuations() (continued <-chan os.Signal, stop func()) { return nil, func() {} }

func readerGone(*os.File) bool { return false }
