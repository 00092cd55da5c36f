package sync

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// Errors of transfer.Sync lead to the exit codes in the manual.
func TestCodeOf(t *testing.T) {
	tree := func(first error) error { return &transfer.TreeError{Failed: 1, First: first} }
	for name, test := range map[string]struct {
		err  error
		code int
	}{
		"something failed": {tree(fs.ErrPermission), 23},
		"vanished":         {tree(fmt.Errorf("src: %w", transfer.ErrVanished)), 24},
		"deletion refused": {tree(fmt.Errorf("%w: too much", transfer.ErrDeletionRefused)),
			25},
		"locked":                {&transfer.LockedError{}, 25},
		"SRC cannot be used":    {fs.ErrNotExist, ui.ExitFailed},
		"locked, inside of one": {&transfer.Error{Err: &transfer.LockedError{}}, 25},
	} {
		t.Run(name, func(t *testing.T) {
			if code := codeOf(test.err); code != test.code {
				t.Errorf("%d, want %d", code, test.code)
			}
		})
	}
}
