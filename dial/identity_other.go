//go:build !unix

package dial

import "io/fs"

// tooOpen returns false: modes say nothing about access here.
func tooOpen(fs.FileInfo) bool { return false }

// othersMayWrite returns false: permissions are not expressed in modes.
func othersMayWrite(fs.FileInfo) bool { return false }

// ours returns false: a file's owner is not known here. OpenSSH has no masters on such systems.
func ours(fs.FileInfo) bool { return false }
