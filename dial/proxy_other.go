//go:build !unix

package dial

import "os"

// terminate kills a process, which cannot be asked to end here.
func terminate(p *os.Process) { p.Kill() }
