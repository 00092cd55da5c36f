package s3bucket

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"

	"github.com/minio/minio-go/v7"

	"github.com/usftp/usftp/server/objectfs"
)

// advice has the remedies for errors that are no client's fault, by S3's codes.
var advice = map[string]string{
	"NoSuchBucket":          "make the bucket, or correct its name",
	"InvalidAccessKeyId":    "the storage does not know the access key: correct it",
	"XAdminUserNotFound":    "the storage does not know the access key: correct it", // versitygw's
	"SignatureDoesNotMatch": "the secret key is not that of the access key: correct it",
	"RequestTimeTooSkewed":  "this machine's clock is wrong: set it",
	"ExpiredToken":          expired,
	"ExpiredTokenException": expired,
	"InvalidToken":          expired,
	"InvalidTokenId":        expired, // MinIO's
	"SlowDown":              "the storage is overloaded: try again later",
	"ServiceUnavailable":    "the storage is overloaded: try again later",
	"AccessDenied":          "the keys do not allow this: change their policy",
	"QuotaExceeded":         "the storage is full, or the quota there is: make room",
	"XMinioStorageFull":     "the storage is full: make room",
	"InvalidObjectState":    "the object is archived: restore it in the storage",

	"PermanentRedirect":            elsewhere,
	"TemporaryRedirect":            elsewhere,
	"AuthorizationHeaderMalformed": elsewhere,
}

const (
	expired   = "the keys have expired: renew them"
	elsewhere = "the bucket is elsewhere: correct the endpoint and the region"
)

// renewed are S3's codes for a request that is to be made again, since another program may be about
// to renew what it was signed with: the keys, which hold no longer, or not yet everywhere in the
// storage, or the clock, as after a sleep.
var renewed = []string{"ExpiredToken", "ExpiredTokenException", "InvalidToken", "InvalidTokenId",
	"InvalidAccessKeyId", "XAdminUserNotFound", "RequestTimeTooSkewed"}

// isRefused reports whether the storage may refuse all requests with these keys, at this address.
func isRefused(err error) bool {
	response, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (response.StatusCode/100 == 3 || slices.Contains([]int{http.StatusBadRequest,
		http.StatusUnauthorized, http.StatusForbidden}, response.StatusCode))
}

// conflicts are S3's codes for a request that is to be made again, since another one was changing the
// object: unlike a condition that does not hold, they say nothing about what there is.
var conflicts = []string{"ConditionalRequestConflict", "OperationAborted", "ConcurrentModification"}

// explained is an error of the storage that matches the error objectfs asks for.
type explained struct {
	error
	is   error
	code string
}

func (e *explained) Unwrap() error { return e.error }

func (e *explained) Is(target error) bool { return target == e.is }

// explain makes errors match by errors.Is, and adds advice to them.
func (b *Bucket) explain(err error) error {
	if err == nil {
		return nil
	}
	response, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return fmt.Errorf("bucket %s: %w", b.name, b.connection(err))
	}
	said := fmt.Errorf("bucket %s: %s (%s)", b.name, response.Error(), response.Code)
	if response.Code == response.Error() { // minio-go has nothing but the status
		said = fmt.Errorf("bucket %s: %s", b.name, response.Code)
	}
	what := advice[response.Code]
	if wrong := b.differs(refusedAhead); wrong != "" && response.StatusCode == http.StatusForbidden {
		what = wrong + ": set it"
	}
	if what != "" {
		said = fmt.Errorf("bucket %s: %s (%s)", b.name, what, response.Code)
	}
	switch response.Code {
	case "NoSuchKey", "NoSuchUpload", "NotFound":
		return &explained{said, fs.ErrNotExist, response.Code}
	case "PreconditionFailed":
		return &explained{said, objectfs.ErrPrecondition, response.Code}
	case "AccessDenied":
		return &explained{said, fs.ErrPermission, response.Code}
	case "NotImplemented":
		return &explained{said, nil, response.Code}
	}
	return said
}

// connection adds advice to the error of a request without an answer.
func (b *Bucket) connection(err error) error {
	failed, ok := errors.AsType[*url.Error](err)
	switch {
	case !ok:
		return err
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%s has a certificate that is not trusted: name its authority's: %w",
			b.endpoint, failed.Err)
	}
	return fmt.Errorf("%s does not answer: see to it, or correct the endpoint: %w", b.endpoint,
		failed.Err)
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
