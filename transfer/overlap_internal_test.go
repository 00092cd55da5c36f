package transfer

import (
	"context"
	"testing"
)

// endedTarget is one whose run ends while it removes a file.
type endedTarget struct {
	target
	asked int
}

func (e *endedTarget) WriteSmall(string, []byte, func()) error { return nil }

func (e *endedTarget) Remove(string, bool) error {
	if e.asked++; e.asked == 1 {
		return context.Canceled
	}
	return nil
}

// TestMarkerOfEndedRun: --stop-on-error may end a run at the moment when the file by which a tree
// would know itself is being removed. It must not stay in the user's directory.
func TestMarkerOfEndedRun(t *testing.T) {
	var dst endedTarget
	remove, err := touch(&dst, "marker")
	if err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil || dst.asked != 2 {
		t.Errorf("%v after %d requests", err, dst.asked)
	}
}
