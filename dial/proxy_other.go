//go:build !unix

package dial

import "os"

// terminate ends a process; there is no way to ask it.
func terminate(p *os.Process) { p.Kill() }
