package usftp

import (
	"strings"
	"sync/atomic"
)

// quirks are what has been found out about a server that does not conform, or not as most do. What
// was found out holds for the connection: nothing is tried twice that is known to fail.
type quirks struct {
	// it works strictly in order, so that what depends on one another may be sent at once
	inOrder     bool
	listsAhead  bool        // several READDIRs on one handle may be asked at once
	noReadWrite atomic.Bool // it refuses to open a file for reading and writing
	noFstat     atomic.Bool // it does not serve FSTAT
	oneWrite    atomic.Bool // it takes one WRITE of a file at a time, in order
	symlinks    atomic.Int32
}

// knownInOrder tells by the SSH server's version line whether it serves requests one at a time, in
// the order in which they came. OpenSSH's sftp-server does; pkg/sftp, SFTPGo and AsyncSSH do not.
func knownInOrder(version string) bool { return strings.Contains(version, "OpenSSH") }

// knownToList tells by the SSH server's version line whether it answers READDIRs on one handle one
// after the other, so that several may be asked at once: those that work in order do, and so does
// package server, whatever else it does side by side.
func knownToList(version string) bool {
	return knownInOrder(version) || strings.HasPrefix(version, "SSH-2.0-usftp")
}

// differs remembers what was found out, and says it once.
func (s *session) differs(quirk *atomic.Bool, what string) {
	if logger := s.options.conn.Logger; quirk.CompareAndSwap(false, true) && logger != nil {
		// this may be a goroutine of the connection's
		s.dispatcher.run(func() { logger.Info("the server differs: " + what) })
	}
}
