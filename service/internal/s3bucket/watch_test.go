package s3bucket

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// hasty returns a bucket at an endpoint that waits for nothing for long.
func hasty(t *testing.T, endpoint string) *Bucket {
	c := config(endpoint)
	c.Patience, c.silence = time.Millisecond, 300*time.Millisecond
	b, err := New("bucket", c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStorageThatHangs: storage that keeps a connection, and takes nothing from it, or sends half
// an answer, is not waited for for ever.
func TestStorageThatHangs(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end)
	deaf := testenv.Listen(t, func(conn net.Conn) {
		defer conn.Close()
		<-end
	})
	long := strings.NewReader(text(64 << 20)) // more than the system takes for it
	b := hasty(t, "http://"+deaf.String())
	if _, err := b.UploadPart(t.Context(), "key", "id", 1,
		io.NewSectionReader(long, 0, long.Size())); err == nil ||
		!strings.Contains(err.Error(), "does not answer: see to it") {
		t.Errorf("a part: %v", err)
	}
	halting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<ListPartsResult>")
		w.(http.Flusher).Flush()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(halting.Close)
	if _, _, err := hasty(t, halting.URL).ListParts(t.Context(), "key", "id", 0); err == nil {
		t.Error("half a list of parts is taken for a whole one")
	}
}
