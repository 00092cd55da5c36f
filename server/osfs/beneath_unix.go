//go:build linux || darwin || freebsd

package osfs

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/kept"
	"github.com/usftp/usftp/wire"
)

// errLinkBeneath is the error for a path that leads through a link.
var errLinkBeneath = &server.StatusError{Code: wire.PermissionDenied,
	Message: "a symbolic link is in the way, and is not followed"}

// WalksBeneath implements server.Beneather.
func (f *FS) WalksBeneath() {}

// beneath calls op with the tree for a request. If the request must not follow links beneath a
// directory, the tree's root is that directory, opened once, so that swapping directories for links
// meanwhile cannot lead it elsewhere. The steps of a request for several files share it.
func (t tree) beneath(ctx context.Context, op func(t tree) error) error {
	top, ok := server.Beneath(ctx)
	if !ok || t.above != "" {
		return op(t)
	}
	above := strings.TrimRight(top, "/")
	type directory struct {
		in    *root
		above string
	}
	root, release, err := kept.Open(ctx, directory{t.root, above}, func() (*os.File, error) {
		return t.openPath(ctx, cmp.Or(above, top), openDirectory, 0)
	})
	if err != nil {
		return err
	}
	defer release()
	return op(tree{root: rootOf(root), above: above + "/",
		uploads: t.uploads})
}
