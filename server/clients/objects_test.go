package clients_test

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// store is a bucket that is served.
type store struct {
	*site
	bucket membucket.Bucket
	fs     *objectfs.FS
}

func newStore(t *testing.T) *store {
	s := &store{}
	s.fs = objectfs.New(&s.bucket, nil)
	s.site = newSiteOf(t, s.fs)
	return s
}

// TestClientsOfObjects: the same programs, as far as objects can do what they ask for.
func TestClientsOfObjects(t *testing.T) {
	withClients(t, clients, newStore, func(t *testing.T, c *client, s *store) {
		s.files(c)
		s.resume(c)
		s.trees(c)
		if n := s.bucket.Uploads(); n != 0 {
			t.Errorf("%d uploads are left", n)
		}
	}, "sshfs") // which sends CLOSE some time after close(2) has returned
}

// longFile has three parts, the last of which is short.
const longFile = 17<<20 + 12345

// holds compares an object with what it should hold.
func (s *store) holds(key string, want []byte) {
	s.t.Helper()
	got, ok := s.bucket.Objects()[key]
	if !ok || got != string(want) {
		s.t.Errorf("%s has %d bytes that are not the %d expected", key, len(got), len(want))
	}
}

func (s *store) files(c *client) {
	s.random(s.path("file"), 99)
	c.put(s.site, s.path("file"), "file")
	for i, size := range append(sizes, longFile) {
		data := s.random(s.path("file"), size)
		c.put(s.site, s.path("file"), "file") // in place of the one before
		s.holds("file", data)
		back := s.path(fmt.Sprintf("back %d", i))
		c.get(s.site, "file", back)
		s.expect(back, data)
	}
	if c.rename != nil {
		c.rename(s.site, "file", "renamed")
		objects := s.bucket.Objects()
		if _, ok := objects["file"]; ok || len(objects["renamed"]) != longFile {
			s.t.Errorf("after a rename %d and %d bytes", len(objects["file"]),
				len(objects["renamed"]))
		}
	}
}

// resume makes the client go on with an upload that was cut, and with a file of which half is
// stored.
func (s *store) resume(c *client) {
	if c.resumePut == nil {
		return // which cannot tells of
	}
	data := s.random(s.path("whole"), longFile)
	file, err := s.fs.Open(context.Background(), "/cut", wire.OpenWrite|wire.OpenCreate,
		wire.Attrs{})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := file.(io.WriterAt).WriteAt(data[:longFile-100], 0); err != nil {
		s.t.Fatal(err)
	}
	if err := file.(server.FileAbandoner).Abandon(); err != nil {
		s.t.Fatal(err)
	}
	if _, ok := s.bucket.Objects()["cut"]; ok {
		s.t.Error("half a file is visible")
	}
	s.bucket.Calls()
	c.resumePut(s.site, s.path("whole"), "cut")
	s.holds("cut", data)
	if n := s.bucket.Calls()["UploadPart"]; n != 2 {
		s.t.Errorf("%d parts were sent, want 2: the first one is kept", n)
	}
	half := data[:longFile/2]
	body := io.NewSectionReader(strings.NewReader(string(half)), 0, int64(len(half)))
	if _, err := s.bucket.Put(context.Background(), "half", body, objectfs.Condition{}); err != nil {
		s.t.Fatal(err)
	}
	c.resumePut(s.site, s.path("whole"), "half")
	s.holds("half", data)
}

func (s *store) trees(c *client) {
	if c.putTree == nil {
		return // which cannot tells of
	}
	tree := map[string][]byte{}
	for _, name := range []string{"a", "b c", "sub/d", "sub/deep/e"} {
		tree[name] = s.random(s.path(filepath.Join("tree", name)), 1000*len(name))
	}
	c.putTree(s.site, s.path("tree"), "tree")
	for name, data := range tree {
		s.holds("tree/"+name, data)
	}
	c.getTree(s.site, "tree", s.path("tree back"))
	s.expectTree(s.path("tree back"), tree)
	if c.list != nil {
		if out := c.list(s.site, "tree"); !strings.Contains(out, "sub") {
			s.t.Errorf("listed: %s", out)
		}
	}
}
