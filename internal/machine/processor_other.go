//go:build !unix

package machine

import "time"

// ProcessorTime returns the processor time used by the process so far, or a negative value if the
// system does not report it.
func ProcessorTime() time.Duration { return -1 }
