package objectfs

import (
	"context"
	"errors"
	"io"
	"time"
)

// Bucket is object storage with the semantics of S3: an object appears whole, or not at all. Errors
// match by errors.Is: fs.ErrNotExist if there is no such object or upload, [ErrPrecondition] if a
// condition does not hold, fs.ErrPermission if the storage refuses. Where a request was repeated
// and such an error may be due to an earlier try, whose answer was lost, that of Put, Copy,
// Complete and Delete also matches server.ErrUnsure. Methods are called concurrently, and must not
// retain bodies.
type Bucket interface {
	// Head describes an object.
	Head(ctx context.Context, key string) (Object, error)

	// Get reads length bytes at offset of the object with this ETag. The range lies within the object,
	// and length is not 0. A Read of the body fails when the context ends. The body is [Described] if
	// the storage tells which object it is a range of.
	Get(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error)

	// Put stores an object.
	Put(ctx context.Context, key string, body *io.SectionReader, when Condition) (Object, error)

	// Delete removes an object, or, if etag is not "", only an object with that ETag. A missing object
	// is no error; with an ETag it is fs.ErrNotExist, if the storage says so.
	Delete(ctx context.Context, key, etag string) error

	// List returns one page of a listing, in the order of the keys' bytes.
	List(ctx context.Context, query Query) (Page, error)

	// Copy copies the object with this ETag, which is at most [MaxCopy] bytes long.
	Copy(ctx context.Context, from, etag, to string, when Condition) (Object, error)

	// CreateUpload begins an object that is uploaded in parts.
	CreateUpload(ctx context.Context, key string) (id string, err error)

	// UploadPart stores a part, and replaces any part with the same number.
	UploadPart(ctx context.Context, key, id string, number int,
		body *io.SectionReader) (Part, error)

	// CopyPart is UploadPart with a range of the object from, which has this ETag.
	CopyPart(ctx context.Context, key, id string, number int, from, etag string,
		offset, length int64) (Part, error)

	// ListParts returns the parts whose numbers are greater than after, in order; more reports whether
	// there are further parts.
	ListParts(ctx context.Context, key, id string, after int) (parts []Part, more bool, err error)

	// Complete makes an object of the parts.
	Complete(ctx context.Context, key, id string, parts []Part, when Condition) (Object, error)

	// Abort drops an upload and its parts.
	Abort(ctx context.Context, key, id string) error

	// ListUploads returns one page of the uploads that are neither complete nor aborted, and whose
	// keys begin with prefix. token is "", or the previous page's next; next is "" on the last page.
	ListUploads(ctx context.Context, prefix, token string) (list []Started, next string, err error)
}

// RangeWriter is an optional interface of a body's Outer: it gives access to the contents without a
// copy.
type RangeWriter interface {
	// WriteRange writes a range of the contents.
	WriteRange(w io.Writer, offset, length int64) error
}

// Described is a body that tells which object it is a range of. Some storage compares the ETag by
// name, and then opens and sends an object that has just come under that name.
type Described interface {
	// Describe returns the length and the modification time of the whole object.
	Describe() (size int64, modified time.Time)
}

// Limits of S3.
const (
	MaxCopy  = 5 << 30 // bytes that one Copy or CopyPart copies
	MaxParts = 10000   // parts of an upload, and the highest part number
	MinPart  = 5 << 20 // bytes of a part, except the last
	MaxKey   = 1024    // bytes of a key
)

// Object describes an object.
type Object struct {
	Key      string
	Size     int64
	ETag     string // without quotes
	Modified time.Time
}

// Condition is a requirement of a change; the zero Condition always holds. Storage that cannot
// check one ignores it.
type Condition struct {
	Absent bool   // there must be no object
	ETag   string // if not "", the object must have this ETag
}

// Query asks for a page of a listing.
type Query struct {
	Prefix    string
	Delimited bool // keys with a slash after the prefix are summed up in Page.Prefixes
	Max       int  // entries of a page; 0 leaves it to the storage
	Token     string
}

// Page is a page of a listing.
type Page struct {
	Objects  []Object
	Prefixes []string // each ends in a slash
	Next     string   // the token of the next page, "" on the last
}

// Part is a part of an upload.
type Part struct {
	Number int // from 1
	Size   int64
	ETag   string
}

// Started is an upload that has begun.
type Started struct {
	Key, ID string
	Begun   time.Time
}

// ErrPrecondition is the error of a request whose condition does not hold: an object was made,
// replaced or removed meanwhile.
var ErrPrecondition = errors.New("the object was changed meanwhile")
