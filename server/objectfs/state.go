package objectfs

import (
	"context"
	"errors"
	"time"
)

// State is what the storage cannot keep and all servers of a bucket must agree on: who writes what,
// which uploads are pending, and modification times. Names are keys of the bucket.
type State interface {
	// Lock takes the right to write to a name, and returns the upload that is pending there, or a
	// new one with only Name set, with a fencing number greater than any before. It fails with
	// ErrLocked if somebody has the right.
	Lock(ctx context.Context, name string) (Upload, error)

	// Update stores what has become of an upload. It fails with ErrLocked if somebody else has
	// taken the right since Lock.
	Update(ctx context.Context, u Upload) error

	// Confirm fails with ErrLocked if somebody else has taken the right since Lock. It may rely on
	// what it has heard of late: where the storage checks conditions it is not the last defence.
	Confirm(ctx context.Context, u Upload) error

	// Settle is SetTime of the object that an upload has become, and Unlock of the upload, which is
	// forgotten. If it fails the caller still has the right. Nothing happens if somebody else has
	// taken the right since Lock: the time is that of his object.
	Settle(ctx context.Context, u Upload, key string, made Stamp) error

	// Unlock gives the right back. The upload stays pending if keep is set, and is forgotten
	// otherwise. Nothing happens if somebody else has taken the right since Lock.
	Unlock(ctx context.Context, u Upload, keep bool) error

	// Find returns the upload that is pending at a name, whoever has the right to write to it, or
	// fs.ErrNotExist. One that has no ID counts only while somebody has the right.
	Find(ctx context.Context, name string) (Upload, error)

	// Waiting is Find for several names. Those for which there is none are left out.
	Waiting(ctx context.Context, names ...string) (map[string]Upload, error)

	// Pending returns the uploads with IDs whose names begin with prefix.
	Pending(ctx context.Context, prefix string) ([]Upload, error)

	// SetTime sets the modification time of the object that has this ETag; the zero time forgets
	// it, whatever the ETag.
	SetTime(ctx context.Context, key, etag string, mtime time.Time) error

	// CopyTime sets the time of a copy, which is that of the object that it was made of.
	CopyTime(ctx context.Context, from Object, to, etag string) error

	// Times returns the times that were set of those of the keys for which there are any.
	Times(ctx context.Context, keys []string) (map[string]Stamp, error)
}

// Stamp is a modification time. It counts for the object with this ETag only.
type Stamp struct {
	ETag  string
	MTime time.Time
}

// Upload is an upload that has not become an object.
type Upload struct {
	Name   string    // the key of the name that the client writes to
	Fence  int64     // the fencing number
	Target string    // the key that the upload is for, which differs for temporary names
	ID     string    // in the bucket; "" until there is a part
	Locked bool      // somebody has the right to write to it
	Begun  time.Time // when it got its ID
	Closed bool      // the client has closed it: it is complete, and waits for its final name
	Size   int64     // of a closed one
	Last   int       // the number of its last part
	MTime  time.Time // that the client has set; zero if it has not

	// Broken says that the parts are not the beginning of what the client sends, since they contain
	// what it has not sent: the rest of an object that was there, or holes. It cannot be resumed.
	Broken bool
}

// ErrLocked is the error of a second writer of a file.
var ErrLocked = errors.New("the file is being written by another session")
