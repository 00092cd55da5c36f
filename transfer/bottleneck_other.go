//go:build !unix

package transfer

import "time"

// processorTime returns the processor time used by the process so far, or a negative value if the
// system does not report it.
func processorTime() time.Duration { return -1 }
