// Package hook connects package usftp, which fills in its variables, with package private, which
// imports usftp and so cannot be imported by it.
package hook

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"
)

var (
	// Client and File return the methods of a *usftp.Client and a *usftp.File that package private
	// describes, and Stripes a new transfer of the file.
	Client, File, Stripes func(any) any

	// Untold is private.Untold.
	Untold func(error) bool

	// OneHandle is private.WithOneHandle, which returns a usftp.ClientOption.
	OneHandle func(host string, shared *atomic.Bool) any

	// FirstRequest is private.WithFirstRequest with a *usftp.Client and a usftp.ClientOption.
	FirstRequest func(start func(client any)) any

	// ErrOtherSize is private.ErrOtherSize.
	ErrOtherSize = errors.New("the file is not of the expected size")

	// ErrNotStored is private.ErrNotStored.
	ErrNotStored = fmt.Errorf("the host has not stored all that it acknowledged (%w)",
		io.ErrShortWrite)
)
