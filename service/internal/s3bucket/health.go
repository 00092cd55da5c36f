package s3bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

const (
	// worrying is how long a request is repeated before the storage counts as failing: any storage
	// is overloaded now and then.
	worrying = 5 * time.Second

	betweenComplaints = time.Minute
)

// health says in the log when the storage fails, and when it works again: clients only learn that
// their requests fail, or wait.
type health struct {
	log *slog.Logger // or nil

	mu         sync.Mutex
	said       bool // that it fails
	complained time.Time
}

// LogTo makes the bucket log when it fails, and when it works again. It is called before the first
// request.
func (b *Bucket) LogTo(log *slog.Logger) { b.health.log = log.With("bucket", b.name) }

func (h *health) works() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.said {
		h.log.Info("object storage works again")
	}
	h.said = false
}

func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.log != nil && !h.said && time.Since(h.complained) >= betweenComplaints {
		h.said, h.complained = true, time.Now()
		h.log.Error("object storage fails", "error", err)
	}
}

// isTrouble reports whether an error says something about the storage as a whole, and not about an
// object, or about the keys' rights, which the log of requests has.
func isTrouble(ctx context.Context, err error) bool {
	response, ok := errors.AsType[minio.ErrorResponse](err)
	switch {
	case ctx.Err() != nil:
		return false
	case !ok:
		return passes(err) || errors.As(err, new(*url.Error)) ||
			errors.As(err, new(*tls.CertificateVerificationError))
	case response.Code == "AccessDenied", response.Code == "InvalidObjectState":
		return false
	}
	return passes(err) || advice[response.Code] != ""
}
