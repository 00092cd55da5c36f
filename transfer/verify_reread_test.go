package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// breaks gives the bench a link, and a new one each time that is lost; each returns only so many
// bytes.
func (b *bench) breaks(link sftptest.LinkConfig, after int64) (count *int) {
	b.t.Helper()
	count = new(int)
	b.host = redialed(b.t, "far", func() (*usftp.Client, error) {
		*count++
		end := b.server.Dial(link)
		return usftp.NewClientPipe(&breakingReader{end, after}, end)
	})
	return count
}

// breakingReader cuts its link once so many bytes have been read.
type breakingReader struct {
	end  *sftptest.End
	left int64
}

func (r *breakingReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.end.Cut(nil)
		return 0, sftptest.ErrCut
	}
	n, err := r.end.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// TestSecondReadIsContinued: what is read a second time, because it was fresh or to verify it, gets
// through a link that carries only part of it at a time.
func TestSecondReadIsContinued(t *testing.T) {
	t.Parallel()
	const size, carried = 40 << 20, 16 << 20
	data := random(size)
	again := transfer.Options{Retry: pool.Retry{Retries: 1,
		Backoff: func(int) time.Duration { return 0 }}}
	verified := again
	verified.Verify = true
	link := sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond}
	for name, test := range map[string]struct {
		way     way
		age     time.Duration
		options transfer.Options
	}{
		"fresh download":    {download, 0, again},
		"fresh relay":       {relay, 0, again},
		"verified download": {download, time.Hour, verified},
		"verified upload":   {upload, time.Hour, verified},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
				count := b.breaks(link, carried)
				b.server.Files.WriteFile("/source", data)
				b.server.Files.SetModTime("/source", time.Now().Add(-test.age))
				source, target, got := "/source", "/target", func() []byte {
					return b.remote("/target")
				}
				j := copyJob{Host: b.host, Direction: test.way, Options: test.options}
				switch test.way {
				case upload:
					source = b.local("source", data)
				case download:
					target, got = filepath.Join(b.dir, "target"), func() []byte {
						return b.read("target")
					}
				case relay:
					to := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
					j.From, j.Host = b.host, to.host
					got = func() []byte { return to.remote("/target") }
				}
				j.Source, j.Target = source, target
				if _, err := j.Run(t.Context()); err != nil {
					t.Fatalf("over %d connections: %v", *count, err)
				}
				if !bytes.Equal(got(), data) {
					t.Error("the copy differs")
				}
				if *count < 3 {
					t.Errorf("%d connections prove nothing", *count)
				}
			})
		})
	}
	t.Run("check", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
			count := b.breaks(link, carried)
			b.server.Files.WriteFile("/tree/file", data)
			hash := checksum.SHA256.New()
			hash.Write(data)
			name := filepath.Join(b.dir, "list")
			line := checksum.Hash{Algorithm: checksum.SHA256,
				Sum: hash.Sum(nil)}.String()[len("sha256:"):]
			if err := os.WriteFile(name, []byte(line+"  file\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			list, err := checksum.Open(name, checksum.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			defer list.Close()
			j := checkJob{Host: b.host, Dir: "/tree", List: list, Options: again}
			if s, err := j.Run(t.Context()); err != nil || s.Files != 1 {
				t.Errorf("over %d connections: %+v, %v", *count, s, err)
			}
		})
	})
}
