//go:build linux || darwin

package sftpfs

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/usftp/usftp/sftptest"
)

// On a host that gives one handle to several open files, programs that have several open read what
// is theirs, and what they write ends up in its own file.
func TestSharedHandles(t *testing.T) {
	s := mountScripted(t, time.Minute, sftptest.Script{SharedHandles: 1})
	names := []string{"a", "b", "c", "d"}
	for _, name := range names {
		s.server.Files.WriteFile("/"+name, []byte(strings.Repeat(name, 300_000)))
	}
	s.server.Files.WriteFile("/w", nil)
	var open []*opened
	for _, name := range names {
		open = append(open, s.openFlags(t, 1, name, os.O_RDONLY))
	}
	for off := 0; off < 300_000; off += 50_000 {
		for i, o := range open {
			got, status := o.readAt(off, 50_000)
			if status != fuse.OK || got != strings.Repeat(names[i], 50_000) {
				t.Fatalf("%s at %d: %v, %d bytes, %.10q", names[i], off, status, len(got), got)
			}
		}
	}
	w := s.openFlags(t, 1, "w", os.O_WRONLY)
	w.write(0, "written")
	if status := w.sync(); status != fuse.OK {
		t.Fatal(status)
	}
	if got, _ := s.server.Files.ReadFile("/w"); string(got) != "written" {
		t.Errorf("/w is %q", got)
	}
}
