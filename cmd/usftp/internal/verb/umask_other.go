//go:build !unix

package verb

// umask returns the usual umask: this system has none.
func umask() uint32 { return 0o022 }
