//go:build !unix

package transfer

import "time"

// processorTime returns what the process has used so far, or a negative value if the system does not
// tell.
func processorTime() time.Duration { return -1 }
