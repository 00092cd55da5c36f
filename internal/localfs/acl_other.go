//go:build !linux

package localfs

import "os"

// KeepACL does nothing on systems without Linux's access control lists.
func KeepACL(*os.Root, string, *os.File) error { return nil }
