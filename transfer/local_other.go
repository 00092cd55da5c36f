//go:build !unix

package transfer

import (
	"io/fs"
	"os"
)

// links returns how many names a file has, as far as is known.
func links(fs.FileInfo) uint64 { return 1 }

// fileID would tell a file from others, where that were known.
func fileID(fs.FileInfo) string { return "" }

// localOwner would return whose a file is, where that were a number.
func localOwner(fs.FileInfo) owner { return owner{} }

// keepOwner does nothing where files have no owner by number.
func (t *localTarget) keepOwner() error { return nil }

// openListed opens a regular file of a tree that is read.
func openListed(name string) (*os.File, error) { return os.Open(name) }

// openListedDir opens a directory of a tree that is read.
func openListedDir(name string) (*os.File, error) { return os.Open(name) }

// openOurs opens a file of the journal, making it where it is not there.
func openOurs(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}
