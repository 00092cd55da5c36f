package filecopy

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestInterruptedReaderHasNotEnded: the cause of an interruption may be that a host met the end of
// another file.
func TestInterruptedReaderHasNotEnded(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{io.EOF, errNoDelta} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		data := strings.NewReader("data")
		for _, r := range []io.Reader{interruptibleReader{ctx, data},
			io.NewSectionReader(interruptibleAt{ctx, nil}, 0, data.Size())} {
			_, err := io.ReadAll(r)
			if err == nil || cause != io.EOF && !errors.Is(err, cause) {
				t.Errorf("interrupted by %v, %T says %v", cause, r, err)
			}
		}
	}
}
