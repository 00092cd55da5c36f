//go:build !unix

package transfer

import "time"

// processorTime returns what the process has used so far, below 0 where the system does not tell.
func processorTime() time.Duration { return -1 }
