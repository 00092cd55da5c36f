// Package s3bucket accesses a bucket of S3 storage.
package s3bucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"

	"github.com/usftp/usftp/server/objectfs"
)

// Config says where the storage is, and how to log in there. The zero Config is Amazon's, with the
// keys from the environment or from the role of the machine.
type Config struct {
	Endpoint  string // a URL; "" is https://s3.amazonaws.com
	Region    string // "" finds out
	PathStyle bool   // the bucket is in the path of a URL and not in the host's name
	CA        string // a file of certificates to trust instead of the system's

	// Keys is a file of keys in the format of ~/.aws/credentials, and Profile the section to use.
	Keys, Profile string

	// AccessKey and SecretKey are the keys themselves, if AccessKey is not "".
	AccessKey, SecretKey string

	// Encryption asks the storage to encrypt: "" does not, "AES256" with its own key, and anything
	// else is the ID of a key of its key management.
	Encryption string

	// Unsigned sends contents without a signature even without TLS.
	Unsigned bool

	// Patience is how long a request is repeated while the storage does not answer or is
	// overloaded; 0 is two and a half minutes.
	Patience time.Duration

	silence time.Duration // in place of silent, for tests
}

// Bucket implements [objectfs.Bucket].
type Bucket struct {
	core     *minio.Core
	name     string
	endpoint string
	sse      encrypt.ServerSide
	unsigned bool
	patience time.Duration
	ahead    atomic.Int64 // of its clock, in ns
	health   health

	misjudges struct{ puts, deletes atomic.Bool } // it refuses If-Match with the right ETag

	lacks struct{ puts, copies, completions atomic.Bool } // conditions
}

var _ objectfs.Bucket = (*Bucket)(nil)

// New returns a bucket. It makes no request.
func New(name string, c Config) (*Bucket, error) {
	if c.Endpoint == "" {
		c.Endpoint = "https://s3.amazonaws.com"
	}
	endpoint, err := url.Parse(c.Endpoint)
	if err != nil || endpoint.Host == "" || endpoint.Path != "" && endpoint.Path != "/" ||
		endpoint.Scheme != "http" && endpoint.Scheme != "https" {
		return nil, fmt.Errorf("the endpoint %q is not like https://s3.example.com", c.Endpoint)
	}
	transport, err := minio.DefaultTransport(endpoint.Scheme == "https")
	if err != nil {
		return nil, err
	}
	transport.ResponseHeaderTimeout = silent
	transport.MaxIdleConnsPerHost = 256
	if c.CA != "" {
		if err := trust(transport, c.CA); err != nil {
			return nil, err
		}
	}
	return newBucket(name, c, endpoint, transport)
}

func newBucket(name string, c Config, endpoint *url.URL, transport http.RoundTripper) (*Bucket,
	error) {
	if c.Patience == 0 {
		c.Patience = usualPatience
	}
	b := &Bucket{name: name, endpoint: c.Endpoint,
		unsigned: c.Unsigned || endpoint.Scheme == "https", patience: c.Patience}
	watched := watcher{transport, cmp.Or(c.silence, silent)}
	options := &minio.Options{
		Creds:      c.credentials(),
		Secure:     endpoint.Scheme == "https",
		Transport:  counting{conditional{clock{watched, &b.ahead}}},
		Region:     c.Region,
		MaxRetries: attempts,
	}
	if c.PathStyle {
		options.BucketLookup = minio.BucketLookupPath
	}
	var err error
	if b.core, err = minio.NewCore(endpoint.Host, options); err != nil {
		return nil, fmt.Errorf("object storage at %s: %w", c.Endpoint, err)
	}
	switch c.Encryption {
	case "":
	case "AES256":
		b.sse = encrypt.NewSSE()
	default:
		b.sse, err = encrypt.NewSSEKMS(c.Encryption, nil)
	}
	return b, err
}

func trust(transport *http.Transport, file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s holds no certificate", file)
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	return nil
}

// Check returns an error with advice if the objects below a prefix cannot be reached. It lists
// them, since only a reply with a body names the error.
func (b *Bucket) Check(ctx context.Context, prefix string) error {
	if _, err := untilDone(ctx, b.core.GetCreds); err != nil { // which would be waited for
		return b.explain(err)
	}
	_, err := b.List(ctx, objectfs.Query{Prefix: prefix, Max: 1})
	return err
}

func (b *Bucket) Head(ctx context.Context, key string) (objectfs.Object, error) {
	o, err := repeat(ctx, b, func() (minio.ObjectInfo, error) {
		o, err := b.core.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
		if isRefused(err) { // without a reason, since there is no body
			if _, why := b.list(ctx, objectfs.Query{Prefix: key, Max: 1}); why != nil {
				err = why
			}
		}
		return o, err
	})
	if odd := listable(key); odd != nil && err != nil { // objects of others can be removed
		return objectfs.Object{}, odd
	}
	if err == nil && (o.ETag == "" || o.Size < 0) {
		return objectfs.Object{}, fmt.Errorf("bucket %s: the storage, or a proxy before it, tells "+
			"ETag %q and length %d (-1: none) of an object", b.name, o.ETag, o.Size)
	}
	return objectfs.Object{Key: key, Size: o.Size, ETag: o.ETag, Modified: o.LastModified},
		err
}

func (b *Bucket) Get(ctx context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	err := errors.Join(options.SetRange(offset, offset+length-1), options.SetMatchETag(etag))
	if err != nil {
		return nil, err
	}
	var info minio.ObjectInfo
	var header http.Header
	body, err := repeat(ctx, b, func() (body io.ReadCloser, err error) {
		body, info, header, err = b.core.GetObject(ctx, b.name, key, options)
		return body, err
	})
	if err != nil {
		return nil, err
	}
	if sent := strings.TrimPrefix(info.ETag, "W/"); sent != "" && strings.Trim(sent, `"`) != etag {
		body.Close()
		return nil, fmt.Errorf("the storage, or a proxy before it, has sent another object: %w",
			objectfs.ErrPrecondition)
	}
	// Storage that ignores the range sends the beginning.
	wanted := fmt.Sprintf("bytes %d-%d/", offset, offset+length-1)
	size, ok := strings.CutPrefix(header.Get("Content-Range"), wanted)
	if !ok {
		body.Close()
		return nil, errors.New("the storage has sent another range than it was asked for")
	}
	if n, err := strconv.ParseInt(size, 10, 64); err == nil { // it may be "*"
		body = described{body, n, info.LastModified}
	}
	return body, nil
}

// described implements [objectfs.Described].
type described struct {
	io.ReadCloser
	size     int64
	modified time.Time
}

func (d described) Describe() (size int64, modified time.Time) { return d.size, d.modified }

// options returns the options of a request that makes an object.
func (b *Bucket) options(when objectfs.Condition) minio.PutObjectOptions {
	o := minio.PutObjectOptions{ServerSideEncryption: b.sse, DisableContentSha256: true}
	switch {
	case when.Absent:
		o.SetMatchETagExcept("*")
	case when.ETag != "":
		o.SetMatchETag(when.ETag)
	}
	return o
}

func (b *Bucket) Put(ctx context.Context, key string, body *io.SectionReader,
	when objectfs.Condition) (objectfs.Object, error) {
	if err := listable(key); err != nil {
		return objectfs.Object{}, err
	}
	if when.ETag == "" {
		return known(&b.lacks.puts, when, func(when objectfs.Condition) (objectfs.Object, error) {
			return b.put(ctx, key, body, when)
		})
	}
	return matching(ctx, b, &b.misjudges.puts, key, when.ETag,
		func(when objectfs.Condition) (objectfs.Object, error) {
			return b.put(ctx, key, body, when)
		})
}

// known makes a change, without its condition if the storage says that it has no implementation of
// that.
func known[T any](lacks *atomic.Bool, when objectfs.Condition,
	change func(when objectfs.Condition) (T, error)) (made T, err error) {
	if !lacks.Load() {
		made, err = change(when)
		if failed, ok := errors.AsType[*explained](err); !ok || failed.code != "NotImplemented" ||
			when == (objectfs.Condition{}) {
			return made, err
		}
	}
	if made, err = change(objectfs.Condition{}); err == nil {
		lacks.Store(true)
	}
	return made, err
}

// matching makes a change if the object has this ETag. Ceph's gateway refuses If-Match of PUT with
// the right ETag, since it compares the quotation marks, too: then matching looks first, as for
// storage that ignores conditions.
func matching[T any](ctx context.Context, b *Bucket, misjudges *atomic.Bool, key, etag string,
	change func(when objectfs.Condition) (T, error)) (made T, err error) {
	refused := objectfs.ErrPrecondition
	if !misjudges.Load() {
		made, err = change(objectfs.Condition{ETag: etag})
		failed, ok := errors.AsType[*explained](err)
		if !ok || failed.code != "PreconditionFailed" && failed.code != "NotImplemented" {
			return made, err
		}
		if failed.code == "PreconditionFailed" {
			refused = err
		}
	}
	now, err := b.Head(ctx, key)
	if err == nil && now.ETag != etag {
		err = refused
	}
	if err != nil {
		return made, err
	}
	misjudges.Store(true)
	return change(objectfs.Condition{})
}

func (b *Bucket) put(ctx context.Context, key string, body *io.SectionReader,
	when objectfs.Condition) (objectfs.Object, error) {
	sum, err := b.sum(body)
	if err != nil {
		return objectfs.Object{}, err
	}
	lent := lend(body)
	defer lent.giveBack()
	made, err := change(ctx, b, func(ctx context.Context) (minio.UploadInfo, error) {
		return b.core.PutObject(ctx, b.name, key, lent.reader(), body.Size(), "", sum,
			b.options(when))
	})
	return objectfs.Object{Key: key, Size: body.Size(), ETag: made.ETag, Modified: time.Now()},
		err
}

// sum returns the hash of a body for the signature, or "" for none. Sending the body in pieces with
// a signature each, as minio-go does otherwise, needs no look ahead, but takes two more copies, and
// Ceph's gateway does not recognize the signature of an empty body that is sent like that.
func (b *Bucket) sum(body *io.SectionReader) (string, error) {
	if b.unsigned {
		return "", nil
	}
	hash, err := sha256.New(), error(nil)
	outer, offset, length := body.Outer()
	if r, ok := outer.(objectfs.RangeWriter); ok {
		err = r.WriteRange(hash, offset, length)
	} else {
		_, err = io.Copy(hash, io.NewSectionReader(outer, offset, length))
	}
	return hex.EncodeToString(hash.Sum(nil)), err
}

func (b *Bucket) Delete(ctx context.Context, key, etag string) error {
	remove := func(when objectfs.Condition) (struct{}, error) {
		return change(ctx, b, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, b.core.RemoveObject(withMatch(ctx, when.ETag), b.name, key,
				minio.RemoveObjectOptions{})
		})
	}
	var err error
	if etag == "" {
		_, err = remove(objectfs.Condition{})
	} else {
		_, err = matching(ctx, b, &b.misjudges.deletes, key, etag, remove)
	}
	if isAbsent(err) && etag == "" {
		return nil
	}
	return err
}

type matchKey struct{}

// withMatch returns a context for a request that is to have If-Match, for which minio-go has no
// option.
func withMatch(ctx context.Context, etag string) context.Context {
	if etag == "" {
		return ctx
	}
	return context.WithValue(ctx, matchKey{}, `"`+etag+`"`)
}

// conditional adds the headers of withMatch. They are not signed, which is only needed for headers
// that begin with x-amz-.
type conditional struct{ http.RoundTripper }

func (c conditional) RoundTrip(r *http.Request) (*http.Response, error) {
	if etag, ok := r.Context().Value(matchKey{}).(string); ok && r.Method == http.MethodDelete {
		r = r.Clone(r.Context())
		r.Header.Set("If-Match", etag)
	}
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && (r.Method != http.MethodGet || hasResult(r) ||
		answer.StatusCode >= http.StatusMultipleChoices) { // there are no contents in it
		answer.Body = joined{io.LimitReader(answer.Body, longestAnswer), answer.Body}
	}
	switch {
	case err == nil && (answer.StatusCode == http.StatusOK && r.Method == http.MethodDelete ||
		answer.StatusCode == http.StatusNotFound):
		revealPage(answer)
	case err != nil || answer.StatusCode != http.StatusOK:
	case hasResult(r):
		revealError(answer)
	case r.Method == http.MethodPut && answer.Header.Get("ETag") == "" &&
		(answer.ContentLength != 0 || !strings.HasSuffix(r.URL.Path, "/")):
		// The storage would tell it, but for the markers of SeaweedFS until 4.17.
		answer.StatusCode, answer.Status = http.StatusBadGateway, errWithoutETag
	}
	return answer, err
}

// errWithoutETag is what minio-go tells of an answer with this status and no body.
const errWithoutETag = "the storage, or a proxy before it, tells no ETag of what it has stored: " +
	"see to the proxy, or use other storage"

// hasResult reports whether the answer to a request has a body that tells the result, in XML.
func hasResult(r *http.Request) bool {
	query := r.URL.Query()
	return r.Method == http.MethodPost || r.Header.Get("X-Amz-Copy-Source") != "" ||
		r.Method == http.MethodGet &&
			(query.Has("list-type") || query.Has("uploads") || query.Has("uploadId") ||
				query.Has("location"))
}

// An answer that does not end must not take the memory. A page of a listing, of 1,000 names of up to
// 1,024 bytes, has less even if each is a reference of six. The storage may send spaces before the
// first element, as long as it works.
const (
	longestAnswer  = 8 << 20
	longestPreface = 64 << 10
)

// passing are S3's codes of errors that may pass, in answers whose status does not say so: the storage
// is overloaded, or a body has not come as it was sent.
var passing = []string{"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown",
	"SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException", "IncompleteBody",
	"BadDigest", "XAmzContentSHA256Mismatch"}

// revealError gives an answer the status of a failure if its body is an error, or no result, such
// as a proxy's page. The storage begins to answer before it has copied a long object, and minio-go
// looks only at the status: it would take anything else for an empty listing, or for a region.
func revealError(answer *http.Response) {
	var seen bytes.Buffer
	decoder := xml.NewDecoder(io.TeeReader(io.LimitReader(answer.Body, longestPreface), &seen))
	root, err := firstElement(decoder)
	switch {
	case errors.As(err, new(cutAnswer)): // so says the body
	case root.Name.Local == "Error":
		var said struct{ Code string }
		decoder.DecodeElement(&said, &root)
		answer.StatusCode = http.StatusBadRequest
		if said.Code == "" || slices.Contains(passing, said.Code) {
			answer.StatusCode = http.StatusInternalServerError
		}
	case !strings.HasSuffix(root.Name.Local, "Result") && root.Name.Local != "LocationConstraint":
		answer.StatusCode = http.StatusBadGateway
	}
	if answer.StatusCode != http.StatusOK {
		answer.Status = http.StatusText(answer.StatusCode)
	}
	answer.Body = wholeBody(answer, &seen)
}

// revealPage gives an answer the status of a failure if its body is a proxy's page and not the
// storage's: minio-go would take what was asked about for deleted, or for gone.
func revealPage(answer *http.Response) {
	var seen bytes.Buffer
	root, _ := firstElement(xml.NewDecoder(io.TeeReader(io.LimitReader(answer.Body,
		longestPreface), &seen)))
	if seen.Len() > 0 && root.Name.Local != "Error" {
		answer.StatusCode = http.StatusBadGateway
		answer.Status = http.StatusText(answer.StatusCode)
	}
	answer.Body = wholeBody(answer, &seen)
}

// wholeBody returns the body of an answer whose beginning has been read.
func wholeBody(answer *http.Response, seen io.Reader) io.ReadCloser {
	return joined{io.MultiReader(seen, answer.Body), answer.Body}
}

type joined struct {
	io.Reader
	io.Closer
}

func firstElement(decoder *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := decoder.Token()
		if start, ok := token.(xml.StartElement); ok || err != nil {
			return start, err
		}
	}
}

func (b *Bucket) List(ctx context.Context, q objectfs.Query) (objectfs.Page, error) {
	result, err := repeat(ctx, b, func() (minio.ListBucketV2Result, error) {
		return b.list(ctx, q)
	})
	if err != nil {
		return objectfs.Page{}, err
	}
	var page objectfs.Page
	for _, o := range result.Contents {
		page.Objects = append(page.Objects, objectfs.Object{Key: o.Key, Size: o.Size,
			ETag: strings.Trim(o.ETag, `"`), Modified: o.LastModified})
	}
	for _, p := range result.CommonPrefixes {
		page.Prefixes = append(page.Prefixes, p.Prefix)
	}
	if result.IsTruncated {
		page.Next = result.NextContinuationToken
	}
	return page, nil
}

func (b *Bucket) list(ctx context.Context, q objectfs.Query) (minio.ListBucketV2Result, error) {
	delimiter := ""
	if q.Delimited {
		delimiter = "/"
	}
	return untilDone(ctx, func() (minio.ListBucketV2Result, error) {
		return b.core.ListObjectsV2(b.name, q.Prefix, "", q.Token, delimiter, q.Max)
	})
}

// untilDone bounds the one call of minio-go that takes no context: it ends by itself when the
// storage has been silent for long enough.
func untilDone[T any](ctx context.Context, call func() (T, error)) (T, error) {
	type answer struct {
		result T
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		result, err := call()
		done <- answer{result, err}
	}()
	select {
	case a := <-done:
		return a.result, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// conditions returns the headers of a copy. minio-go passes metadata on as headers.
func (b *Bucket) conditions(etag string, when objectfs.Condition) map[string]string {
	headers := map[string]string{"x-amz-copy-source-if-match": `"` + etag + `"`}
	switch {
	case when.Absent:
		headers["If-None-Match"] = "*"
	case when.ETag != "":
		headers["If-Match"] = `"` + when.ETag + `"`
	}
	return headers
}

func (b *Bucket) Copy(ctx context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	sse := http.Header{}
	if b.sse != nil {
		b.sse.Marshal(sse)
	}
	made, err := known(&b.lacks.copies, when, func(when objectfs.Condition) (minio.ObjectInfo,
		error) {
		headers := b.conditions(etag, when)
		for name := range sse {
			headers[name] = sse.Get(name)
		}
		return change(ctx, b, func(ctx context.Context) (minio.ObjectInfo, error) {
			return b.core.CopyObject(ctx, b.name, from, b.name, to, headers,
				minio.CopySrcOptions{}, minio.PutObjectOptions{})
		})
	})
	if err != nil {
		return objectfs.Object{}, err
	}
	return objectfs.Object{Key: to, ETag: made.ETag, Modified: made.LastModified}, nil
}
