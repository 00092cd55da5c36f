package objectfs_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/wire"
)

// silent is a bucket that does not answer uploads of parts.
type silent struct{ objectfs.Bucket }

func (silent) UploadPart(ctx context.Context, _, _ string, _ int,
	_ *io.SectionReader) (objectfs.Part, error) {
	<-ctx.Done()
	return objectfs.Part{}, context.Cause(ctx)
}

// TestSilentStorage: a session that ends does not wait for storage that says nothing, and leaves
// nothing locked.
func TestSilentStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.fs = b.serve(silent{b.bucket})
		session, end := context.WithCancel(context.Background())
		f, err := b.fs.Open(session, "/f", truncate, wire.Attrs{})
		b.must(err)
		done := make(chan error)
		go func() {
			_, err := f.(writer).WriteAt([]byte(text(4*partSize)), 0)
			done <- err
		}()
		synctest.Wait() // two parts are on their way, and a third one is to be written
		end()
		began := time.Now()
		if err := <-done; err == nil {
			t.Error("the write has succeeded")
		}
		b.must(f.(writer).Abandon())
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the end of the session took %v", took)
		}
		if n := b.fs.Memory().Out(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
		b.fs = b.serve(b.bucket)
		b.put("/f", "text")
		b.holds("/f", "text")
	})
}
