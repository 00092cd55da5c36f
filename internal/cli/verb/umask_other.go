//go:build !unix

package verb

// umask is the usual one: the system has none.
func umask() uint32 { return 0o022 }
