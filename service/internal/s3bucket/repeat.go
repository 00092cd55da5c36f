package s3bucket

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
)

const (
	// usualPatience is longer than the two minutes that storage may be away without harm to an
	// upload: it has to be asked once more after them.
	usualPatience = 150 * time.Second

	// pause is the time between two tries, of a few attempts each. More attempts must not be left to
	// minio-go, whose doubled waits overflow: after half a minute it would no longer wait at all.
	pause    = time.Second
	attempts = 3
)

// repeat makes a request, again and again while the storage does not answer, is overloaded or has a
// conflict with another request, or there are no keys that hold now, for as long as the bucket's
// patience lasts.
func repeat[T any](ctx context.Context, b *Bucket, request func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		result, err := request()
		if err == nil {
			b.health.works()
			return result, nil
		}
		last := !passes(err) || time.Since(began) >= b.patience
		if (last || time.Since(began) >= worrying) && isTrouble(ctx, err) {
			b.health.failed(b.explain(err))
		}
		if last {
			return result, b.explain(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return result, b.explain(err)
		}
	}
}

// lostKey is the key of the number of a request's tries that the storage may have carried out
// although it did not say so.
type lostKey struct{}

// change repeats a request that makes a change, as repeat does. An error that may be due to an
// earlier try that was carried out matches [server.ErrUnsure].
func change[T any](ctx context.Context, b *Bucket, request func(context.Context) (T, error)) (T,
	error) {
	var lost atomic.Int64
	ctx = context.WithValue(ctx, lostKey{}, &lost)
	result, err := repeat(ctx, b, func() (T, error) {
		result, err := request(ctx)
		if errors.As(err, new(cutAnswer)) {
			lost.Add(1)
		}
		return result, err
	})
	if lost.Load() > 0 && (isAbsent(err) || errors.Is(err, objectfs.ErrPrecondition)) {
		err = server.Unsure(err)
	}
	return result, err
}

// counting counts the tries of a change whose outcome nobody knows.
type counting struct{ http.RoundTripper }

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if lost, ok := r.Context().Value(lostKey{}).(*atomic.Int64); ok &&
		(err != nil || answer.StatusCode >= http.StatusInternalServerError) {
		lost.Add(1)
	}
	return answer, err
}

// done repeats a request that has no result, as repeat does.
func (b *Bucket) done(ctx context.Context, request func() error) error {
	_, err := repeat(ctx, b, func() (struct{}, error) { return struct{}{}, request() })
	return err
}

// passes reports whether a request that has failed may succeed later.
func passes(err error) bool {
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return slices.Contains(slices.Concat(passing, conflicts, renewed), response.Code) ||
			slices.Contains([]int{http.StatusRequestTimeout, http.StatusTooManyRequests,
				http.StatusInternalServerError, http.StatusBadGateway,
				http.StatusServiceUnavailable, http.StatusGatewayTimeout}, response.StatusCode)
	}
	failed := errors.As(err, new(*url.Error)) || errors.As(err, new(cutAnswer)) ||
		errors.As(err, new(noKeys))
	return failed && !errors.Is(err, context.Canceled) &&
		!errors.As(err, new(*tls.CertificateVerificationError))
}
