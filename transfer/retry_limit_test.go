package transfer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestServerThatKeepsDisconnecting: a server that ends the connection at every request of some
// kind, after the first few, is given up: each connection may bring progress, but not forever.
func TestServerThatKeepsDisconnecting(t *testing.T) {
	t.Parallel()
	local := filepath.Join(t.TempDir(), "source")
	makeSample(t, local)
	for _, on := range []sftptest.Fault{
		{On: wire.TypeOpen}, {On: wire.TypeClose}, {On: wire.TypeRead}, {On: wire.TypeWrite},
		{On: wire.TypeLstat}, {On: wire.TypeStat}, {On: wire.TypeFstat},
		{On: wire.TypeFsetstat}, {On: wire.TypeSetstat}, {On: wire.TypeOpendir},
		{On: wire.TypeReaddir}, {On: wire.TypeRemove}, {On: wire.TypeMkdir},
		{On: wire.TypeRename}, {On: wire.TypeSymlink}, {On: wire.TypeReadlink},
		{On: wire.TypeExtended, Extension: wire.ExtPosixRename}, {On: wire.TypeExtended,
			Extension: wire.ExtFsync}, {On: wire.TypeExtended, Extension: wire.ExtLimits},
	} {
		for _, do := range []sftptest.Action{sftptest.Hangup(), sftptest.LastReply()} {
			for _, skip := range []int{0, 4} {
				on := on
				on.Do, on.Skip = do, skip
				t.Run(fmt.Sprintf("%v %s, %v, after %d", on.On, on.Extension, do, skip), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { alwaysBreaks(t, local, on, skip > 0) })
				})
			}
		}
	}
}

func alwaysBreaks(t *testing.T, local string, fault sftptest.Fault, plain bool) {
	script := sftptest.Script{Faults: []sftptest.Fault{fault}}
	if plain {
		script.Extensions = []wire.ExtensionPair{{Name: wire.ExtLimits, Data: "1"},
			{Name: wire.ExtFsync, Data: "1"}}
	}
	for _, direction := range []way{upload, download} {
		b := newTreeBench(t, script, sftptest.LinkConfig{})
		connections := b.redials(sftptest.LinkConfig{}, nil)
		source, target := local, "/target"
		if direction == download {
			source, target = "/source", filepath.Join(b.dir, "target")
			for i := range 5 {
				b.server.Files.WriteFile(fmt.Sprintf("/source/%d/file", i), random(200_000*i))
			}
			b.server.Files.Symlink("elsewhere", "/source/link")
		} else {
			b.server.Files.WriteFile("/target/one", []byte("old"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		began := time.Now()
		tree := treeJob{Host: b.host, Direction: direction, Source: source, Target: target}
		tree.Options.Retries, tree.Options.Sync = 3, true
		s, err := tree.Run(ctx)
		if ctx.Err() != nil || *connections > 40 {
			t.Errorf("%v: %d connections, %v: %+v, %v", direction, *connections, time.Since(began),
				s.Totals, err)
		}
	}
}
