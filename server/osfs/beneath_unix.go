//go:build linux || darwin || freebsd

package osfs

import (
	"cmp"
	"context"
	"os"
	"path"
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

// beneath calls op with the tree for a request on name. If the request must not follow links beneath
// a directory, the tree's root is that directory, opened once, so that swapping directories for
// links meanwhile cannot lead it elsewhere. The steps of a request for several files share it, and
// the directory of name, which then is the root.
func (t tree) beneath(ctx context.Context, name string, op func(t tree) error) error {
	top, ok := server.Beneath(ctx)
	if !ok || t.above != "" {
		return op(t)
	}
	type directory struct {
		in   *root
		path string
	}
	enter := func(in tree, dir string) (tree, func(), error) {
		root, release, err := kept.Open(ctx, directory{t.root, dir}, func() (*os.File, error) {
			return in.openPath(ctx, dir, openDirectory, 0)
		})
		if err != nil {
			return t, nil, err
		}
		return tree{rootOf(root), strings.TrimRight(dir, "/") + "/", t.uploads}, release, nil
	}
	below, release, err := enter(t, cmp.Or(strings.TrimRight(top, "/"), "/"))
	if err != nil {
		return err
	}
	defer release()
	dir := strings.TrimRight(path.Dir(name), "/")
	if kept.Keeps(ctx) && len(dir) > len(below.above) {
		if parent, release, err := enter(below, dir); err == nil {
			defer release()
			below = parent
		}
	}
	return op(below)
}
