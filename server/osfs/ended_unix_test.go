//go:build linux || darwin || freebsd

package osfs_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// leaving is the context of a client who is gone after a number of looks.
type leaving struct {
	context.Context
	looks *int
}

func (l leaving) Err() error {
	if *l.looks--; *l.looks < 0 {
		return context.Canceled
	}
	return nil
}

// TestClientGoneWhileMaking: whenever its client goes, a request that has failed has made nothing,
// which is what quotas count.
func TestClientGoneWhileMaking(t *testing.T) {
	t.Parallel()
	times := wire.Attrs{Flags: wire.AttrACModTime, ATime: 1, MTime: 2}
	tooLarge := wire.Attrs{Flags: wire.AttrSize, Size: 1 << 63}
	f, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Mkdir(t.Context(), "/d", wire.Attrs{Permissions: 0o755}); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(ctx context.Context) error{
		"/d/dir": func(ctx context.Context) error { return f.Mkdir(ctx, "/d/dir", times) },
		"/d/file": func(ctx context.Context) error {
			file, err := f.Open(ctx, "/d/file", create, tooLarge)
			if err == nil {
				file.Close()
			}
			return err
		},
	} {
		for most := range 20 {
			looks := most
			err := run(leaving{t.Context(), &looks})
			if err == nil {
				break
			}
			if _, found := f.Stat(t.Context(), name); !errors.Is(found, fs.ErrNotExist) {
				t.Errorf("%s, after %d looks: %v, and it is there: %v", name, most, err, found)
				break
			}
		}
	}
}
