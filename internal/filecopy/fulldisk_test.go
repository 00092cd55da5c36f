package filecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// unheard is a Reporter that nobody listens to.
type unheard struct{ Reporter }

func (unheard) Note(string) {}

// TestNoRoomDuringDelta: where a delta finds no room, for the file or for its owner, a whole copy
// would find none either, so none is made. After any other error one is made.
func TestNoRoomDuringDelta(t *testing.T) {
	for _, test := range []struct {
		why   error
		whole bool
	}{
		{syscall.ENOSPC, false},
		{syscall.EDQUOT, false},
		{syscall.EFBIG, false},
		{syscall.EIO, true},
	} {
		t.Run(test.why.Error(), func(t *testing.T) {
			c := &Copy{Request: Request{Run: &Run{Ctx: t.Context()}, Reporter: unheard{}}}
			d := &delta{copy: c}
			err := &fs.PathError{Op: "write", Path: "target", Err: test.why}
			if got := d.failed(err); errors.Is(got, errNoDelta) != test.whole {
				t.Errorf("on this machine: %v", got)
			}
			// A host says only later that it was for want of room.
			if got := c.again(fmt.Errorf("%w: %w", errNoDelta, err)); got != test.whole {
				t.Errorf("on a host: another attempt is %v", got)
			}
		})
	}
}
