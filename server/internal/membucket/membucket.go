// Package membucket is a bucket in memory, for tests.
package membucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/server/objectfs"
)

// Bucket is an [objectfs.Bucket] in memory. The zero Bucket is empty and ready for use, with the
// limits of S3.
type Bucket struct {
	// MinPart, if not 0, replaces [objectfs.MinPart], so that tests need little memory.
	MinPart int64

	mu      sync.Mutex
	objects map[string]object
	uploads map[string]*upload // by ID
	ids     int
	calls   map[string]int
}

type object struct {
	data     []byte
	etag     string
	modified time.Time
}

type upload struct {
	key   string
	begun time.Time
	parts map[int]part
}

type part struct {
	data []byte
	sum  [md5.Size]byte
}

var errInvalid = errors.New("the storage refuses the request")

func missing(what, name string) error { return fmt.Errorf("%s %q: %w", what, name, fs.ErrNotExist) }

// count counts a call, and takes the lock; the result releases it.
func (b *Bucket) count(name string) func() {
	b.mu.Lock()
	if b.calls == nil {
		b.objects, b.uploads = map[string]object{}, map[string]*upload{}
		b.calls = map[string]int{}
	}
	b.calls[name]++
	return b.mu.Unlock
}

// Calls returns the number of calls of each method, and resets them.
func (b *Bucket) Calls() map[string]int {
	defer b.count("")()
	calls := maps.Clone(b.calls)
	delete(calls, "")
	clear(b.calls)
	return calls
}

// Objects returns the contents of all objects.
func (b *Bucket) Objects() map[string]string {
	defer b.count("")()
	all := map[string]string{}
	for key, o := range b.objects {
		all[key] = string(o.data)
	}
	return all
}

// Uploads returns the number of pending uploads.
func (b *Bucket) Uploads() int {
	defer b.count("")()
	return len(b.uploads)
}

func (o object) describe(key string) objectfs.Object {
	return objectfs.Object{Key: key, Size: int64(len(o.data)), ETag: o.etag, Modified: o.modified}
}

// find returns an object; the caller holds the lock.
func (b *Bucket) find(key, etag string) (object, error) {
	o, ok := b.objects[key]
	switch {
	case !ok:
		return object{}, missing("object", key)
	case etag != "" && o.etag != etag:
		return object{}, objectfs.ErrPrecondition
	}
	return o, nil
}

// store makes an object; the caller holds the lock.
func (b *Bucket) store(key string, data []byte, etag string,
	when objectfs.Condition) (objectfs.Object, error) {
	if len(key) > objectfs.MaxKey || key == "" {
		return objectfs.Object{}, errInvalid
	}
	now, exists := b.objects[key]
	if when.Absent && exists || when.ETag != "" && now.etag != when.ETag {
		return objectfs.Object{}, objectfs.ErrPrecondition
	}
	o := object{data, etag, time.Now()}
	b.objects[key] = o
	return o.describe(key), nil
}

func (b *Bucket) Head(_ context.Context, key string) (objectfs.Object, error) {
	defer b.count("Head")()
	o, err := b.find(key, "")
	return o.describe(key), err
}

func (b *Bucket) Get(_ context.Context, key, etag string, offset,
	length int64) (io.ReadCloser, error) {
	defer b.count("Get")()
	o, err := b.find(key, etag)
	if err == nil && (offset < 0 || length <= 0 || offset+length > int64(len(o.data))) {
		err = errInvalid
	}
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(o.data[offset : offset+length])), nil
}

// read is io.ReadAll for what is as long as it says, without the copies of a buffer that grows.
func read(body *io.SectionReader) ([]byte, error) {
	data := make([]byte, body.Size())
	_, err := io.ReadFull(body, data)
	return data, err
}

func (b *Bucket) Put(_ context.Context, key string, body *io.SectionReader,
	when objectfs.Condition) (objectfs.Object, error) {
	data, err := read(body)
	if err != nil {
		return objectfs.Object{}, err
	}
	sum := md5.Sum(data)
	defer b.count("Put")()
	return b.store(key, data, hex.EncodeToString(sum[:]), when)
}

func (b *Bucket) Delete(_ context.Context, key, etag string) error {
	defer b.count("Delete")()
	if _, err := b.find(key, etag); err != nil && etag != "" {
		return err
	}
	delete(b.objects, key)
	return nil
}

func (b *Bucket) List(_ context.Context, q objectfs.Query) (page objectfs.Page, err error) {
	defer b.count("List")()
	most := 1000
	if q.Max > 0 {
		most = min(most, q.Max)
	}
	last := q.Token
	for _, key := range slices.Sorted(maps.Keys(b.objects)) {
		rest, ok := strings.CutPrefix(key, q.Prefix)
		if !ok || key <= q.Token || strings.HasSuffix(q.Token, "/") && q.Delimited &&
			q.Token != q.Prefix && strings.HasPrefix(key, q.Token) {
			continue
		}
		name, _, deep := strings.Cut(rest, "/")
		common := q.Prefix + name + "/"
		if deep && q.Delimited && last == common {
			continue
		}
		if len(page.Objects)+len(page.Prefixes) == most {
			page.Next = last
			return page, nil
		}
		if deep && q.Delimited {
			page.Prefixes = append(page.Prefixes, common)
			last = common
			continue
		}
		page.Objects = append(page.Objects, b.objects[key].describe(key))
		last = key
	}
	return page, nil
}

func (b *Bucket) Copy(_ context.Context, from, etag, to string,
	when objectfs.Condition) (objectfs.Object, error) {
	defer b.count("Copy")()
	o, err := b.find(from, etag)
	if err != nil {
		return objectfs.Object{}, err
	}
	sum := md5.Sum(o.data) // as in S3, not the ETag of an object of parts
	return b.store(to, o.data, hex.EncodeToString(sum[:]), when)
}

func (b *Bucket) CreateUpload(_ context.Context, key string) (string, error) {
	defer b.count("CreateUpload")()
	b.ids++
	id := fmt.Sprintf("upload-%d", b.ids)
	b.uploads[id] = &upload{key, time.Now(), map[int]part{}}
	return id, nil
}

// upload returns an upload; the caller holds the lock.
func (b *Bucket) upload(key, id string) (*upload, error) {
	u := b.uploads[id]
	if u == nil || u.key != key {
		return nil, missing("upload", id)
	}
	return u, nil
}

func (b *Bucket) addPart(key, id string, number int, data []byte) (objectfs.Part, error) {
	u, err := b.upload(key, id)
	if err == nil && (number < 1 || number > objectfs.MaxParts) {
		err = errInvalid
	}
	if err != nil {
		return objectfs.Part{}, err
	}
	u.parts[number] = part{data, md5.Sum(data)}
	return u.parts[number].describe(number), nil
}

func (p part) describe(number int) objectfs.Part {
	return objectfs.Part{Number: number, Size: int64(len(p.data)),
		ETag: hex.EncodeToString(p.sum[:])}
}

func (b *Bucket) UploadPart(_ context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	data, err := read(body)
	if err != nil {
		return objectfs.Part{}, err
	}
	defer b.count("UploadPart")()
	return b.addPart(key, id, number, data)
}

func (b *Bucket) CopyPart(_ context.Context, key, id string, number int, from, etag string, offset,
	length int64) (objectfs.Part, error) {
	defer b.count("CopyPart")()
	o, err := b.find(from, etag)
	if err == nil && (offset < 0 || length <= 0 || length > objectfs.MaxCopy ||
		offset+length > int64(len(o.data))) {
		err = errInvalid
	}
	if err != nil {
		return objectfs.Part{}, err
	}
	return b.addPart(key, id, number, o.data[offset:offset+length])
}

func (b *Bucket) ListParts(_ context.Context, key, id string,
	after int) (list []objectfs.Part, more bool, err error) {
	defer b.count("ListParts")()
	u, err := b.upload(key, id)
	if err != nil {
		return nil, false, err
	}
	for _, number := range slices.Sorted(maps.Keys(u.parts)) {
		if number <= after {
			continue
		}
		if len(list) == 1000 {
			return list, true, nil
		}
		list = append(list, u.parts[number].describe(number))
	}
	return list, false, nil
}

func (b *Bucket) Complete(_ context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	defer b.count("Complete")()
	u, err := b.upload(key, id)
	if err != nil {
		return objectfs.Object{}, err
	}
	least := int64(objectfs.MinPart)
	if b.MinPart > 0 {
		least = b.MinPart
	}
	var pieces [][]byte
	sum, last := md5.New(), 0
	for i, wanted := range parts {
		p, ok := u.parts[wanted.Number]
		if !ok || wanted.ETag != p.describe(0).ETag || wanted.Number <= last ||
			i < len(parts)-1 && int64(len(p.data)) < least {
			return objectfs.Object{}, errInvalid
		}
		last = wanted.Number
		pieces = append(pieces, p.data)
		sum.Write(p.sum[:])
	}
	if len(parts) == 0 {
		return objectfs.Object{}, errInvalid
	}
	etag := fmt.Sprintf("%x-%d", sum.Sum(nil), len(parts))
	if _, err = b.store(key, slices.Concat(pieces...), etag, when); err != nil {
		return objectfs.Object{}, err
	}
	delete(b.uploads, id)
	return objectfs.Object{Key: key, ETag: etag}, nil // S3's answer has no more
}

func (b *Bucket) Abort(_ context.Context, key, id string) error {
	defer b.count("Abort")()
	_, err := b.upload(key, id)
	if err == nil {
		delete(b.uploads, id)
	}
	return err
}

func (b *Bucket) ListUploads(_ context.Context, prefix,
	_ string) (list []objectfs.Started, next string, err error) {
	defer b.count("ListUploads")()
	for id, u := range b.uploads {
		if strings.HasPrefix(u.key, prefix) {
			list = append(list, objectfs.Started{Key: u.key, ID: id, Begun: u.begun})
		}
	}
	return list, "", nil
}
