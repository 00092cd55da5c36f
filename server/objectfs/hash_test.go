package objectfs_test

import (
	"crypto/md5"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
)

// TestHashOfKeptParts: a client that goes on with an upload can prove what was kept, part by part,
// also under a quota, and gets no hash of anything else.
func TestHashOfKeptParts(t *testing.T) {
	b := newBench(t)
	data := text(4*partSize + 1)
	w := b.write("/f", truncate)
	b.at(w, 0, data)
	b.must(w.Abandon())
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(t.Context(), far, b.fs,
			&server.Options{Policy: server.Policy{Quota: server.NewQuota(1<<30, 0)}})
	}()
	client, err := usftp.NewClientPipe(near, near)
	b.must(err)
	defer func() { client.Close(); <-served }()
	f, err := client.OpenFile("/f", os.O_RDWR, 0)
	b.must(err)
	info, err := f.Stat()
	b.must(err)
	if info.Size() != 3*partSize {
		t.Fatalf("%d bytes are kept, want %d", info.Size(), 3*partSize)
	}
	for at := int64(0); at < info.Size(); at += partSize {
		got, err := f.CheckFile(usftp.CheckFile{Algorithms: []string{"sha256", "md5"}, Offset: at,
			Length: partSize})
		b.must(err)
		want := md5.Sum([]byte(data[at : at+partSize]))
		if got.Algorithm != "md5" || string(got.Hashes[0]) != string(want[:]) {
			t.Errorf("at %d: %+v, want %x", at, got, want)
		}
	}
	for _, what := range []usftp.CheckFile{
		{Algorithms: []string{"sha256"}, Length: partSize},
		{Algorithms: []string{"md5"}, Length: 2 * partSize},
		{Algorithms: []string{"md5"}, Offset: 1, Length: partSize},
		{Algorithms: []string{"md5"}, Offset: 3 * partSize, Length: partSize},
	} {
		if got, err := f.CheckFile(what); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v: %+v, %v", what, got, err)
		}
	}
}
