package filecopy

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/usftp/usftp/internal/endpoint"
)

// TestReplacedFileHasChanged: a source that was replaced while it was opened has changed, and
// accepting files that grow does not help.
func TestReplacedFileHasChanged(t *testing.T) {
	err := Changed(&fs.PathError{Op: "open", Path: "dir/file", Err: endpoint.ErrReplaced})
	_, not := errors.AsType[unread](err)
	const want = "open dir/file: the source changed while it was copied: another file has taken its place"
	if !errors.Is(err, ErrSourceChanged) || !not || err.Error() != want {
		t.Errorf("%v, %v", err, not)
	}
}
