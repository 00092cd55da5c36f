package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/store"
)

// storage has the settings of object storage.
type storage struct {
	s3bucket.Config
	memory      int64 // bytes
	refuseModes bool
}

// isObjects reports whether a root is in object storage.
func isObjects(root string) bool { return strings.HasPrefix(root, "s3://") }

// objectRoot returns the canonical spelling of a root in object storage, and its parts.
func objectRoot(root string) (spelled, bucket, prefix string, err error) {
	bucket, prefix, _ = strings.Cut(strings.TrimPrefix(root, "s3://"), "/")
	if bucket == "" {
		return "", "", "", fmt.Errorf("%q names no bucket: use s3://BUCKET/PREFIX", root)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return "s3://" + bucket, bucket, "", nil
	}
	for element := range strings.SplitSeq(prefix, "/") {
		if element == "" || element == "." || element == ".." {
			return "", "", "", fmt.Errorf("%q has an element that no path has: use "+
				"s3://BUCKET/PREFIX",
				root)
		}
	}
	return "s3://" + bucket + "/" + prefix, bucket, prefix + "/", nil
}

// objects has the roots in object storage. All share memory; roots in one bucket share the state,
// since one may lie in another.
type objects struct {
	storage storage
	store   *store.Store // or nil
	memory  *objectfs.Memory
	log     *slog.Logger
	sweeper *sweeper
	buckets map[string]*bucket // by names, and by roots that the keys are not for
}

// bucket is a bucket that was tried.
type bucket struct {
	*s3bucket.Bucket
	state  objectfs.State
	failed error // why it is not used
	tried  time.Time
}

const (
	// tryPatience is how long a bucket may take to prove that it can be used. A reload or a stop of
	// the server waits as long.
	tryPatience = 15 * time.Second

	// tryAgain is how long a bucket that could not be used is not tried again, since many users may be
	// in it.
	tryAgain = time.Minute
)

func newObjects(s storage, shared *store.Store, sweeper *sweeper) *objects {
	return &objects{storage: s, store: shared, memory: objectfs.NewMemory(s.memory),
		log: sweeper.log, sweeper: sweeper, buckets: map[string]*bucket{}}
}

// open opens a root in object storage; for any other root it returns nil.
func (o *objects) open(ctx context.Context, root string) (server.FS, error) {
	if !isObjects(root) {
		return nil, nil
	}
	_, name, prefix, err := objectRoot(root)
	if err != nil {
		return nil, err
	}
	b := cmp.Or(o.buckets[name], o.buckets[root])
	if b == nil || b.failed != nil && time.Since(b.tried) > tryAgain {
		b = o.try(ctx, name, prefix)
		if errors.Is(b.failed, fs.ErrPermission) {
			name = root // the keys may be for other prefixes
		}
		o.buckets[name] = b
	}
	if b.failed != nil {
		return nil, b.failed
	}
	options := &objectfs.Options{Prefix: prefix, State: b.state, Memory: o.memory,
		RefuseModes: o.storage.refuseModes}
	o.sweeper.add(root, func(ctx context.Context, age time.Duration,
		quotas ...*server.Quota) error {
		return objectfs.New(b, options).Sweep(ctx, age, quotas...)
	})
	return objectfs.New(b, options), nil
}

// try tests whether a bucket can be used, below a prefix, since keys may be for that only.
func (o *objects) try(ctx context.Context, name, prefix string) *bucket {
	b := &bucket{state: &objectfs.MemoryState{}}
	if o.store != nil {
		b.state = o.store.Objects(name)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, tryPatience,
		fmt.Errorf("bucket %s: no answer within %s: see to the storage", name, tryPatience))
	defer cancel()
	var unchecked []string
	impatient := o.storage.Config
	impatient.Patience = 2 * time.Second
	probe, err := s3bucket.New(name, impatient)
	if err == nil {
		err = probe.Check(ctx, prefix)
	}
	if err == nil {
		unchecked, err = objectfs.Probe(ctx, probe, prefix)
	}
	if err == nil {
		b.Bucket, err = s3bucket.New(name, o.storage.Config)
	}
	if err == nil {
		b.LogTo(o.log)
	}
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	for _, line := range unchecked {
		o.log.Warn("the storage does not check everything", "bucket", name, "missing", line)
	}
	if err == nil && probe.Clock() != "" {
		o.log.Warn("S3 refuses requests if clocks differ by 15 minutes", "bucket", name, "differs",
			probe.Clock())
	}
	b.failed, b.tried = err, time.Now()
	return b
}
