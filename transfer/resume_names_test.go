package transfer_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
)

// A copy whose path is no UTF-8 is continued as any other. Names on old hosts often are Latin-1.
func TestResumeOfANameInLatin1(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := random(24 << 20)
		link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond,
			RateBytesPerSec: 8 << 20}
		b := newBench(t, sftptest.Script{}, link)
		source, target := b.local("source", data), "/caf\xe9"
		options := func(j *copyJob) {
			j.Options.Journal, j.Options.Resume = filepath.Join(b.dir, "journal"), true
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		first, err := b.jobContext(ctx, upload, source, target, options)
		if err == nil || first.LeftBehind == "" {
			t.Fatalf("%+v, %v", first, err)
		}
		second, err := b.job(upload, source, target, options)
		if err != nil || second.Resumed == 0 {
			t.Errorf("%+v, %v; it says %q", second, err, b.notes())
		}
		if !bytes.Equal(b.remote(target), data) {
			t.Error("the target differs")
		}
		if left := b.temporaries(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	})
}
