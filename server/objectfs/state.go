package objectfs

import (
	"context"
	"errors"
	"time"
)

// State holds the facts that the storage cannot keep and all servers of a bucket must agree on:
// which files are locked, which uploads are pending, and modification times. Names are keys of the
// bucket.
type State interface {
	// Lock takes the write lock of a name, and returns the upload pending there, or a new one with
	// only Name and Target set, with a fencing number greater than any before. It fails with
	// ErrLocked if the lock is held.
	Lock(ctx context.Context, name, target string) (Upload, error)

	// Update stores the new state of an upload. It fails with ErrLocked if another session has taken
	// the lock since Lock.
	Update(ctx context.Context, u Upload) error

	// Confirm fails with ErrLocked if another session has taken the lock since Lock. It may rely on
	// recent cached facts: where the storage checks conditions it is not the last defence.
	Confirm(ctx context.Context, u Upload) error

	// Settle sets the time of the object that an upload has become, or with the zero time clears
	// any, and calls Unlock for the upload, which is forgotten. If it fails the caller still holds
	// the lock. It does nothing and fails with ErrLocked if another session has taken the lock since
	// Lock: then the time belongs to the other session's object.
	Settle(ctx context.Context, u Upload, key string, made Stamp) error

	// Unlock releases the lock. The upload stays pending if keep is set, and is forgotten otherwise.
	// It does nothing and fails with ErrLocked if another session has taken the lock since Lock.
	Unlock(ctx context.Context, u Upload, keep bool) error

	// Find returns the upload pending at a name, whether locked or not, or fs.ErrNotExist. An upload
	// without an ID counts only while it is locked.
	Find(ctx context.Context, name string) (Upload, error)

	// Waiting is Find for several names. Names without an upload are left out.
	Waiting(ctx context.Context, names ...string) (map[string]Upload, error)

	// Pending returns the uploads with IDs whose names begin with prefix.
	Pending(ctx context.Context, prefix string) ([]Upload, error)

	// SetTime sets the modification time of the object that has this ETag, and forgets any other. The
	// zero time clears it, and leaves that of an object with another ETag, which has come since.
	SetTime(ctx context.Context, key, etag string, mtime time.Time) error

	// CopyTime gives a copy the modification time of the object it was made of.
	CopyTime(ctx context.Context, from Object, to, etag string) error

	// Times returns the times set for the keys. Keys without one are left out.
	Times(ctx context.Context, keys []string) (map[string]Stamp, error)
}

// Stamp is a modification time. It is valid only for the object with this ETag.
type Stamp struct {
	ETag  string
	MTime time.Time
}

// Upload is an upload that has not become an object yet.
type Upload struct {
	Name   string    // the key that the client writes to
	Fence  int64     // the fencing number
	Target string    // the key of the future object, which differs for temporary names
	ID     string    // of the upload in the bucket; "" until there is a part
	Locked bool      // a session holds the write lock
	Begun  time.Time // when it got its ID, or a client has last gone on with it
	Closed bool      // the client has closed it: it is complete, and waits for its final name
	Size   int64     // of a closed upload, or of what a client may go on with; 0 if not known
	Last   int       // the number of its last part; of one that is not closed, 0 if all parts count
	MTime  time.Time // set by the client, or zero

	// ETag is that of the object that the parts make, as S3 computes it: of all parts of a closed
	// upload, or of those that a client may go on with. "" is not known. A server that has slept may
	// replace a part late.
	ETag string

	// Broken says that the parts contain bytes that the client has not sent, from the old object or
	// from holes, or that another server has replaced one, and so are not the beginning of its file.
	// The upload cannot be resumed.
	Broken bool

	countedBytes, countedFiles int64 // what the state has of it, as a quota counts it
}

// ErrLocked is the error for a second writer of a file.
var ErrLocked = errors.New("the file is being written by another session")
