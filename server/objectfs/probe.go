package objectfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Probe tests storage with objects below a prefix, which it removes again. It fails if files would
// not be safe there. Otherwise it returns a line for each condition that the storage does not
// check, with the possible consequence.
func Probe(ctx context.Context, bucket Bucket, prefix string) (unchecked []string, err error) {
	p := &prober{bucket: bucket, key: prefix + ".usftp-probe-" + rand.Text()}
	defer func() {
		ctx, cancel := lasting(ctx)
		defer cancel()
		for _, key := range []string{p.key, p.key + "-copy"} {
			err = errors.Join(err, bucket.Delete(ctx, key, ""))
		}
	}()
	if err := p.reads(ctx); err != nil {
		return nil, fmt.Errorf("the storage cannot be used: %w", err)
	}
	if err := p.uploads(ctx); err != nil {
		return nil, fmt.Errorf("the storage cannot be used: %w", err)
	}
	return p.unchecked, nil
}

type prober struct {
	bucket    Bucket
	key       string
	etag      string
	unchecked []string
}

const (
	probeText = "probe"
	otherETag = "00000000000000000000000000000000"
)

func probeBody() *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(probeText), 0, int64(len(probeText)))
}

// checks records a possible consequence, unless a request failed because of its condition.
func (p *prober) checks(err error, otherwise string) {
	if !errors.Is(err, ErrPrecondition) {
		p.unchecked = append(p.unchecked, otherwise)
	}
}

// reads tries everything but multipart uploads.
func (p *prober) reads(ctx context.Context) error {
	made, err := p.bucket.Put(ctx, p.key, probeBody(), Condition{})
	if err != nil {
		return err
	}
	p.etag = made.ETag
	if o, err := p.bucket.Head(ctx, p.key); err != nil || o.Size != int64(len(probeText)) ||
		o.ETag != made.ETag {
		return errors.Join(err, fmt.Errorf("HEAD describes another object than PUT has made"))
	}
	body, err := p.bucket.Get(ctx, p.key, p.etag, 1, 3)
	if err != nil {
		return err
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != probeText[1:4] {
		return errors.Join(err, errors.New("GET does not read the range that it is asked for"))
	}
	if body, err := p.bucket.Get(ctx, p.key, otherETag, 1, 3); !errors.Is(err, ErrPrecondition) {
		if err == nil {
			body.Close()
		}
		return errors.New("GET ignores If-Match: files replaced while they are read are mixed up")
	}
	_, err = p.bucket.Put(ctx, p.key, probeBody(), Condition{Absent: true})
	p.checks(err, "PUT ignores If-None-Match: two programs may both create what must not exist")
	_, err = p.bucket.Put(ctx, p.key, probeBody(), Condition{ETag: otherETag})
	p.checks(err, "PUT ignores If-Match: a change may overwrite what another program has stored")
	_, err = p.bucket.Copy(ctx, p.key, p.etag, p.key+"-copy", Condition{})
	if err != nil {
		return err
	}
	_, err = p.bucket.Copy(ctx, p.key, otherETag, p.key+"-copy", Condition{})
	p.checks(err, "a copy ignores its source's ETag: a rename may take what has just been replaced")
	_, err = p.bucket.Copy(ctx, p.key, p.etag, p.key+"-copy", Condition{Absent: true})
	p.checks(err, "a copy ignores If-None-Match: a rename may overwrite a file that has just come")
	err = p.bucket.Delete(ctx, p.key+"-copy", otherETag)
	p.checks(err, "DELETE ignores If-Match: one that is held up may delete a file that has just come")
	return nil
}

// uploads tries multipart uploads.
func (p *prober) uploads(ctx context.Context) error {
	id, err := p.bucket.CreateUpload(ctx, p.key)
	if err != nil {
		return err
	}
	part, err := p.bucket.UploadPart(ctx, p.key, id, 1, probeBody())
	if err != nil {
		return p.abort(ctx, id, err)
	}
	if _, err = p.bucket.CopyPart(ctx, p.key, id, 2, p.key, p.etag, 1, 3); err != nil {
		return p.abort(ctx, id, err)
	}
	_, err = p.bucket.CopyPart(ctx, p.key, id, 3, p.key, otherETag, 1, 3)
	p.checks(err, "the copy of a part ignores its source's ETag: a change may mix up two files")
	list, _, err := p.bucket.ListParts(ctx, p.key, id, 0)
	if err == nil && (len(list) < 2 || list[0].ETag != part.ETag || list[1].Size != 3) {
		err = errors.New("the list of an upload's parts is not what was uploaded")
	}
	if err != nil {
		return p.abort(ctx, id, err)
	}
	_, err = p.bucket.Complete(ctx, p.key, id, []Part{part}, Condition{Absent: true})
	p.checks(err, "completing ignores If-None-Match: two may both create what must not exist")
	if err := p.abort(ctx, id, nil); err != nil {
		return err
	}
	return p.replacedParts(ctx)
}

// replacedParts tries to complete an upload whose part is another than its server knows of.
func (p *prober) replacedParts(ctx context.Context) error {
	id, err := p.bucket.CreateUpload(ctx, p.key)
	if err != nil {
		return err
	}
	part, err := p.bucket.UploadPart(ctx, p.key, id, 1, probeBody())
	if err == nil {
		part.ETag = otherETag
		if _, refused := p.bucket.Complete(ctx, p.key, id, []Part{part}, Condition{}); refused == nil {
			p.unchecked = append(p.unchecked, "completing ignores the ETags of parts: one that comes "+
				"late may get into a file")
		}
	}
	return p.abort(ctx, id, err)
}

// abort drops the upload, unless it has been completed, and returns err.
func (p *prober) abort(ctx context.Context, id string, err error) error {
	ctx, cancel := lasting(ctx)
	defer cancel()
	if abortErr := p.bucket.Abort(ctx, p.key, id); !absent(abortErr) {
		err = errors.Join(err, abortErr)
	}
	return err
}
