package connect

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// A spellingFS looks names up as they are spelled after fold.
type spellingFS struct {
	*memfs.FS
	fold func(string) string
}

func (f spellingFS) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return f.FS.Lstat(ctx, f.fold(path))
}

// TestTaken: the names of copies are found again as a directory takes them.
func TestTaken(t *testing.T) {
	composed, decomposed := norm.NFC.String("/käse"), norm.NFD.String("/käse")
	exactly := func(name string) string { return name }
	for name, test := range map[string]struct {
		fold           func(string) string
		there          []string
		first, second  string
		taken, spelled bool
	}{
		"the same name":             {exactly, []string{"/a"}, "/a", "/a", true, false},
		"another name":              {strings.ToLower, []string{"/a"}, "/a", "/b", false, false},
		"one name":                  {strings.ToLower, []string{"/photo"}, "/photo", "/Photo", false, true},
		"one name, by letters":      {norm.NFD.String, []string{decomposed}, composed, decomposed, false, true},
		"two names":                 {exactly, []string{"/photo"}, "/photo", "/Photo", false, false},
		"two names that both exist": {exactly, []string{"/photo", "/Photo"}, "/photo", "/Photo", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			files := spellingFS{memfs.New(0), test.fold}
			near, far := net.Pipe()
			go server.Serve(t.Context(), far, files, nil)
			client, err := usftp.NewClientPipe(near, near)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { client.Close() })
			for _, file := range test.there {
				if err := client.WriteFile(file, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			taken := make(Taken[int])
			taken.Add(test.first[1:], 7)
			source, ok := taken.Exactly(test.second[1:])
			if ok != test.taken || ok && source != 7 {
				t.Errorf("exactly: %v, %v", source, ok)
			}
			if source, ok = taken.Spelled(test.second[1:], client, "/"); ok != test.spelled ||
				ok && source != 7 {
				t.Errorf("spelled: %v, %v", source, ok)
			}
		})
	}
}

// TestTakenHere is the same on this machine, which is asked what it takes for one.
func TestTakenHere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "photo"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := os.Lstat(filepath.Join(dir, "Photo"))
	taken := make(Taken[int])
	taken.Add("photo", 7)
	if _, ok := taken.Spelled("Photo", nil, dir); ok != (err == nil) {
		t.Errorf("Photo is taken: %v, though Lstat says %v", ok, err)
	}
}
