package objectfs_test

import (
	"context"
	"io"
	"testing"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestConformance: what any server promises, except for what objects do not have.
func TestConformance(t *testing.T) {
	f := objectfs.New(&membucket.Bucket{}, nil)
	if err := f.Mkdir(context.Background(), "/cases", wire.Attrs{}); err != nil {
		t.Fatal(err)
	}
	const noLinks, noModes = "objects have no links", "objects have no permissions"
	sftptest.Conformance{
		Dial: func(t testing.TB) io.ReadWriteCloser { return dial(t, f) },
		Dir:  "/cases",
		Skip: map[string]string{
			"OpenReadWrite":        "a file that is being written cannot be read",
			"OpenSetsMode":         noModes,
			"HandlesOfOneFile":     "a file has one writer at a time",
			"Setstat":              noModes,
			"RemovedFileStaysOpen": "a removed object cannot be read",
			"Symlink":              noLinks,
			"SymlinkDangling":      noLinks,
			"SymlinkLoop":          noLinks,
			"ReaddirKinds":         noLinks,
			"Fsync":                "a file is stored when it is closed",
		},
	}.Run(t)
}
