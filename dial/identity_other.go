//go:build !unix

package dial

import "io/fs"

// tooOpen cannot be told from a mode here.
func tooOpen(fs.FileInfo) bool { return false }
