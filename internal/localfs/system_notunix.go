//go:build !unix

package localfs

import (
	"io/fs"
	"os"
)

// Links returns how many names a file has, 1 here.
func Links(fs.FileInfo) uint64 { return 1 }

// OwnerOf returns a file's owner, which has no number here.
func OwnerOf(fs.FileInfo) Owner { return Owner{} }

// ID identifies a file whatever its name, "" if unknown.
func ID(fs.FileInfo) string { return "" }

// OpenPrivate opens a file for reading and writing and creates it if needed.
func OpenPrivate(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// Nonblock is a flag that means nothing here: no file waits to be opened.
const Nonblock = 0

// OpenRegular and OpenNoFollow open a regular file for reading.
func OpenRegular(name string) (*os.File, error)  { return os.Open(name) }
func OpenNoFollow(name string) (*os.File, error) { return os.Open(name) }
