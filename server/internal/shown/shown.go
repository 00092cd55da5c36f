// Package shown decides which names, and which part of an error, clients get to see.
package shown

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

const (
	// MaxName is the longest name that is listed, in bytes; file systems allow 255.
	MaxName = 1024
	// maxMessage limits an error's text, since errors of backends may be long.
	maxMessage = 256
)

// Name reports whether a name may be listed: a single path element other than "." and "..". Other
// names are left out of listings, since no client could use them.
func Name(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MaxName &&
		!strings.ContainsAny(name, "/\x00")
}

// Message returns an error's text for a client: without operation and path.
func Message(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Err != nil {
		return Message(e.Err)
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok && e.Err != nil {
		return Message(e.Err)
	}
	if e, ok := errors.AsType[*os.SyscallError](err); ok && e.Err != nil {
		return Message(e.Err)
	}
	message := err.Error()
	return message[:min(len(message), maxMessage)]
}
