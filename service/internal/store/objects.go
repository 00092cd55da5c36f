package store

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/usftp/usftp/server/objectfs"
)

// objects is the [objectfs.State] of a bucket, which all nodes share. Others may take the locks of
// a node that is taken for dead; then its fencing numbers no longer count. While the store is down
// nothing new is written; files are read with the storage's own times.
type objects struct {
	store  *Store
	bucket string
}

var _ objectfs.State = objects{}

// Objects returns the state of a bucket, by a name that is the same on all nodes.
func (s *Store) Objects(bucket string) objectfs.State { return objects{s, bucket} }

// rights are the locks that sessions of this node may hold. The store may have more of them: it was
// down when a session ended, or was to begin.
type rights struct {
	mu    sync.Mutex
	held  map[right]int
	since map[right]grant // the last that the store gave

	// spent are the fencing numbers of locks whose uploads are to be forgotten. The store did not
	// hear of that.
	spent map[right]int64
}

type right struct{ bucket, name string }

// grant is the fencing number of a lock, and the life of this node in which the store gave it.
type grant struct {
	fence int64
	life  int
}

func (r *rights) init() {
	r.held, r.since, r.spent = map[right]int{}, map[right]grant{}, map[right]int64{}
}

func (r *rights) add(one right, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[one] += n; r.held[one] <= 0 {
		delete(r.held, one)
		delete(r.since, one)
	}
}

// got records that the store has given a lock.
func (r *rights) got(one right, given grant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since[one] = given
}

// spend records a lock whose upload is to be forgotten.
func (r *rights) spend(one right, fence int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent[one] = fence
}

// allSpent returns what spend has recorded.
func (r *rights) allSpent() map[right]int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.spent)
}

// forgotten removes records of spend that the store has heard of.
func (r *rights) forgotten(told map[right]int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.spent, func(one right, fence int64) bool { return told[one] == fence })
}

// life returns the life of this node in which the store gave a lock, unless it has given another
// one since.
func (r *rights) life(one right, fence int64) (life int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	given, ok := r.since[one]
	return given.life, ok && given.fence == fence
}

func (r *rights) has(one right) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[one] > 0
}

// columns are the columns of an upload, in the order of fields.
const columns = `fence, node, target, id, begun, closed, size, last, mtime, broken,
	CASE WHEN sealed = fence THEN etag ELSE '' END`

// noTime stands for no time; other times are in ms since 1970.
const noTime = -1 << 62

func fromTime(t time.Time) int64 {
	if t.IsZero() {
		return noTime
	}
	return t.UnixMilli()
}

func toTime(ms int64) time.Time {
	if ms == noTime {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// row is a row that is being read. Names are bytes: clients choose them.
type row struct {
	objectfs.Upload
	name, target                 []byte
	node                         string
	begun, mtime, closed, broken int64
}

// fields returns the destinations of columns.
func (r *row) fields() []any {
	return []any{&r.Fence, &r.node, &r.target, &r.ID, &r.begun, &r.closed, &r.Size, &r.Last,
		&r.mtime, &r.broken, &r.ETag}
}

func (r *row) upload(name string) objectfs.Upload {
	u := r.Upload
	u.Name, u.Target, u.Locked = name, string(r.target), r.node != ""
	u.Begun, u.MTime = toTime(r.begun), toTime(r.mtime)
	u.Closed, u.Broken = r.closed != 0, r.broken != 0
	return u
}

// nextFence is the fencing number of a lock, where excluded has the time.
const nextFence = `CASE WHEN uploads.fence >= excluded.fence THEN uploads.fence + 1
	ELSE excluded.fence END`

// Lock implements [objectfs.State]. The fencing number follows the clock, so that it keeps growing
// after a row was removed.
func (o objects) Lock(ctx context.Context, name, target string) (objectfs.Upload, error) {
	one, life := right{o.bucket, name}, o.store.signs.life()
	o.store.rights.add(one, 1)
	var r row
	err := o.store.doOne(ctx, func(t tx) error {
		found, err := t.one(`INSERT INTO uploads (bucket, name, fence, node, target, id, begun,
				closed, size, last, mtime, broken)
			VALUES ($1, $2, @now, $3, $4, '', $5, 0, 0, 0, $5, 0)
			ON CONFLICT (bucket, name) DO UPDATE SET node = $3, fence = `+nextFence+`,
				target = CASE WHEN uploads.id = '' THEN $4 ELSE uploads.target END,
				sealed = CASE WHEN uploads.sealed = uploads.fence THEN `+nextFence+` ELSE 0 END
			WHERE uploads.node = '' RETURNING `+columns, []any{o.bucket, []byte(name),
			o.store.node, []byte(target), int64(noTime)}, r.fields()...)
		if err == nil && !found {
			err = refusal{objectfs.ErrLocked}
		}
		return err
	})
	if err != nil {
		o.store.rights.add(one, -1)
		return objectfs.Upload{}, plainly(err)
	}
	o.store.rights.got(one, grant{r.Fence, life})
	return r.upload(name), nil
}

func (o objects) Update(ctx context.Context, u objectfs.Upload) error {
	return plainly(o.store.doOne(ctx, func(t tx) error {
		rows, err := o.write(t, u, o.store.node)
		if err == nil && rows == 0 {
			err = refusal{objectfs.ErrLocked}
		}
		return err
	}))
}

// mine is the condition that no other session has taken the lock since this node did.
const mine = `bucket = $1 AND name = $2 AND (node = $3 OR node = '') AND fence = $4`

// write stores an upload and the node that holds its lock, unless another session has taken it.
func (o objects) write(t tx, u objectfs.Upload, node string) (rows int64, err error) {
	return t.exec(`UPDATE uploads SET node = $5, target = $6, id = $7, begun = $8, closed = $9,
		size = $10, last = $11, mtime = $12, broken = $13, etag = $14, sealed = fence WHERE `+mine,
		o.bucket, []byte(u.Name), o.store.node, u.Fence, node, []byte(u.Target), u.ID,
		fromTime(u.Begun), number(u.Closed), u.Size, u.Last, fromTime(u.MTime), number(u.Broken),
		u.ETag)
}

// Confirm implements [objectfs.State]. Others can take a lock of this node only if they have heard
// no sign of life for long; the store need not be asked if they have heard one lately.
func (o objects) Confirm(ctx context.Context, u objectfs.Upload) error {
	life, ok := o.store.rights.life(right{o.bucket, u.Name}, u.Fence)
	if ok && o.store.signs.still(life, o.store.times.dead) && !o.store.Down() {
		return nil
	}
	return o.Update(ctx, u)
}

// Settle implements [objectfs.State]. Without a time it may happen later.
func (o objects) Settle(ctx context.Context, u objectfs.Upload, key string,
	made objectfs.Stamp) error {
	lost := false
	err := o.store.do(ctx, func(t tx) error {
		rows, err := o.write(t, objectfs.Upload{Name: u.Name, Fence: u.Fence}, "")
		if lost = rows == 0; err != nil || lost {
			return err
		}
		return o.setTime(t, key, made)
	})
	if made.MTime.IsZero() && errors.Is(err, ErrDown) {
		o.store.rights.spend(right{o.bucket, u.Name}, u.Fence)
		err = nil
	}
	if err == nil {
		o.store.rights.add(right{o.bucket, u.Name}, -1)
		if lost {
			err = objectfs.ErrLocked
		}
	}
	return err
}

// Unlock implements [objectfs.State]. If the upload is to be forgotten while the store is down, it
// is later.
func (o objects) Unlock(ctx context.Context, u objectfs.Upload, keep bool) error {
	if !keep {
		u = objectfs.Upload{Name: u.Name, Fence: u.Fence}
	}
	var rows int64
	err := o.store.doOne(ctx, func(t tx) (err error) {
		rows, err = o.write(t, u, "")
		return err
	})
	if !keep && err != nil {
		o.store.rights.spend(right{o.bucket, u.Name}, u.Fence)
	}
	o.store.rights.add(right{o.bucket, u.Name}, -1)
	switch {
	case err == nil && rows == 0:
		return objectfs.ErrLocked
	case !keep && errors.Is(err, ErrDown):
		return nil
	}
	return err
}

func (o objects) Find(ctx context.Context, name string) (objectfs.Upload, error) {
	var r row
	err := o.store.doOne(ctx, func(t tx) error {
		found, err := t.one(`SELECT `+columns+` FROM uploads WHERE bucket = $1 AND name = $2`,
			[]any{o.bucket, []byte(name)}, r.fields()...)
		if err == nil && (!found || r.ID == "" && r.node == "") {
			err = refusal{fs.ErrNotExist}
		}
		return err
	})
	return r.upload(name), plainly(err)
}

func (o objects) Waiting(ctx context.Context,
	names ...string) (found map[string]objectfs.Upload, err error) {
	args, places := o.several(names)
	err = o.store.doOne(ctx, func(t tx) error {
		found = map[string]objectfs.Upload{}
		var r row
		return t.each(`SELECT name, `+columns+` FROM uploads WHERE bucket = $1
			AND name IN (`+places+`) AND (id <> '' OR node <> '')`, args,
			append([]any{&r.name}, r.fields()...), func() {
				found[string(r.name)] = r.upload(string(r.name))
			})
	})
	return found, err
}

// several returns the arguments of a statement about several names, and their places in it.
func (o objects) several(names []string) (args []any, list string) {
	args = []any{o.bucket}
	for _, name := range names {
		args = append(args, []byte(name))
	}
	return args, places(2, len(names))
}

func (o objects) Pending(ctx context.Context, prefix string) (list []objectfs.Upload, err error) {
	err = o.store.doOne(ctx, func(t tx) error {
		list = nil
		var r row
		where, args := "", []any{o.bucket, []byte(prefix)}
		if after := beyond(prefix); after != nil {
			where, args = " AND name < $3", append(args, after)
		}
		return t.each(`SELECT name, `+columns+` FROM uploads
			WHERE bucket = $1 AND name >= $2 AND id <> ''`+where, args,
			append([]any{&r.name}, r.fields()...), func() {
				list = append(list, r.upload(string(r.name)))
			})
	})
	return list, err
}

// beyond returns the first name after all that begin with a prefix, or nil if there is none.
func beyond(prefix string) []byte {
	after := []byte(prefix)
	for len(after) > 0 && after[len(after)-1] == 0xff {
		after = after[:len(after)-1]
	}
	if len(after) == 0 {
		return nil
	}
	after[len(after)-1]++
	return after
}

// SetTime implements [objectfs.State]. A time that cannot be cleared does no harm: it has another
// ETag.
func (o objects) SetTime(ctx context.Context, key, etag string, mtime time.Time) error {
	err := o.store.doOne(ctx, func(t tx) (err error) {
		if mtime.IsZero() {
			return t.run(`DELETE FROM stamps WHERE bucket = $1 AND name = $2 AND etag = $3`,
				o.bucket, []byte(key), etag)
		}
		return o.setTime(t, key, objectfs.Stamp{ETag: etag, MTime: mtime})
	})
	if mtime.IsZero() && errors.Is(err, ErrDown) {
		return nil
	}
	return err
}

// setTime sets or clears the time of a key, whatever there was.
func (o objects) setTime(t tx, key string, stamp objectfs.Stamp) (err error) {
	if stamp.MTime.IsZero() {
		err = t.run(`DELETE FROM stamps WHERE bucket = $1 AND name = $2`, o.bucket, []byte(key))
	} else {
		err = t.run(`INSERT INTO stamps (bucket, name, etag, mtime) VALUES ($1, $2, $3, $4)
			ON CONFLICT (bucket, name) DO UPDATE SET etag = $3, mtime = $4`, o.bucket, []byte(key),
			stamp.ETag, stamp.MTime.UnixMilli())
	}
	return err
}

func (o objects) CopyTime(ctx context.Context, from objectfs.Object, to, etag string) error {
	return o.store.doOne(ctx, func(t tx) error {
		return t.run(`INSERT INTO stamps (bucket, name, etag, mtime) VALUES ($1, $2, $3,
			coalesce((SELECT mtime FROM stamps WHERE bucket = $1 AND name = $4 AND etag = $5), $6))
			ON CONFLICT (bucket, name) DO UPDATE SET etag = excluded.etag, mtime = excluded.mtime`,
			o.bucket, []byte(to), etag, []byte(from.Key), from.ETag, from.Modified.UnixMilli())
	})
}

func (o objects) Times(ctx context.Context, keys []string) (map[string]objectfs.Stamp, error) {
	found := map[string]objectfs.Stamp{}
	if len(keys) == 0 {
		return found, nil
	}
	args, places := o.several(keys)
	err := o.store.doOne(ctx, func(t tx) error {
		var name []byte
		var etag string
		var mtime int64
		return t.each(`SELECT name, etag, mtime FROM stamps WHERE bucket = $1 AND name IN (`+
			places+`)`, args, []any{&name, &etag, &mtime}, func() {
			found[string(name)] = objectfs.Stamp{ETag: etag, MTime: time.UnixMilli(mtime)}
		})
	})
	if errors.Is(err, ErrDown) {
		return map[string]objectfs.Stamp{}, nil
	}
	return found, err
}

// giveBackRights releases the locks of this node that no session holds.
func (s *Store) giveBackRights(ctx context.Context) {
	spent := s.rights.allSpent()
	if s.do(ctx, func(t tx) error { return s.giveBack(t, spent) }) == nil {
		s.rights.forgotten(spent)
	}
}

// giveBack forgets the uploads of spent locks, and releases the others that no session holds. Until
// now, clients may have gone on with the latter's uploads.
func (s *Store) giveBack(t tx, spent map[right]int64) error {
	for one, fence := range spent {
		if _, err := (objects{s, one.bucket}).write(t, objectfs.Upload{Name: one.name, Fence: fence},
			""); err != nil {
			return err
		}
	}
	type lost struct {
		right
		fence int64
	}
	var all []lost
	var bucket string
	var name []byte
	var fence int64
	if err := t.each(`SELECT bucket, name, fence FROM uploads WHERE node = $1`, []any{s.node},
		[]any{&bucket, &name, &fence}, func() {
			if one := (right{bucket, string(name)}); !s.rights.has(one) {
				all = append(all, lost{one, fence})
			}
		}); err != nil {
		return err
	}
	for _, one := range all {
		if err := t.run(`UPDATE uploads SET node = '', begun = @now WHERE bucket = $1
			AND name = $2 AND node = $3 AND fence = $4`, one.bucket, []byte(one.name), s.node,
			one.fence); err != nil {
			return err
		}
	}
	return nil
}

// forgetRights releases the locks of a node that has ended. If it is alive after all, and no other
// session has taken them, it goes on. Until now, clients may have gone on with its uploads.
func forgetRights(t tx, node string) error {
	return t.run(`UPDATE uploads SET node = '', begun = @now WHERE node = $1`, node)
}

// cleanUploads removes forgotten uploads, but not at once: the fencing numbers of locks taken
// within one millisecond are ahead of the clock, and a node that was taken for dead may go on.
func cleanUploads(t tx) error {
	return t.run(`DELETE FROM uploads WHERE node = '' AND id = '' AND fence < @now - $1`,
		(10 * time.Minute).Milliseconds())
}
