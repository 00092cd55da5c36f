package s3bucket

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/usftp/usftp/server/objectfs"
)

// answering returns a bucket of a storage that answers like this.
func answering(t *testing.T, answer http.HandlerFunc) *Bucket {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	impatient := config(server.URL)
	impatient.Patience = time.Millisecond
	b, err := New("bucket", impatient)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEndlessAnswers: an answer that does not end takes neither the memory nor the log.
func TestEndlessAnswers(t *testing.T) {
	t.Parallel()
	const much, longest = 128 << 20, 2000
	for begins, goesOn := range map[string]string{
		"<!-- ":                             "it goes on and on ",
		"":                                  " \n",
		"<ListBucketResult>":                "<Contents><Key>k</Key></Contents>",
		"<Error><Code>InternalError</Code>": "<Message>it goes on</Message>",
	} {
		t.Run(begins, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			b := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, begins)
				for some := strings.Repeat(goesOn, 10_000); sent.Load() < much; {
					n, err := io.WriteString(w, some)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			})
			_, err := b.List(t.Context(), objectfs.Query{Prefix: "k", Max: 1})
			if err == nil || sent.Load() >= much || len(err.Error()) > longest {
				t.Errorf("a listing, of which %d bytes came: %.2000v", sent.Load(), err)
			}
			sent.Store(0)
			err = b.Delete(t.Context(), "k", "")
			if err == nil || sent.Load() >= much || len(err.Error()) > longest {
				t.Errorf("a removal, of whose answer %d bytes came: %.2000v", sent.Load(), err)
			}
		})
	}
}
