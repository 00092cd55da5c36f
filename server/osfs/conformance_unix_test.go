//go:build linux || darwin || freebsd

package osfs_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
)

// TestConformance: what any server promises.
func TestConformance(t *testing.T) {
	for name, serve := range map[string]func(string) (*osfs.FS, error){"in place": osfs.New,
		"atomic": osfs.NewAtomic} {
		t.Run(name, func(t *testing.T) {
			files, err := serve(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { files.Close() })
			sftptest.Conformance{
				Dial: func(t testing.TB) io.ReadWriteCloser {
					ours, theirs := net.Pipe()
					done := make(chan error, 1)
					go func() { done <- server.Serve(context.Background(), theirs, files, nil) }()
					t.Cleanup(func() {
						ours.Close()
						<-done
					})
					return ours
				},
				Dir: "/",
			}.Run(t)
		})
	}
}
