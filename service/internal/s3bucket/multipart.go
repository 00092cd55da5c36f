package s3bucket

import (
	"context"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/usftp/usftp/server/objectfs"
)

func (b *Bucket) CreateUpload(ctx context.Context, key string) (string, error) {
	return repeat(ctx, b, func() (id string, err error) {
		return b.core.NewMultipartUpload(ctx, b.name, key, b.options(objectfs.Condition{}))
	})
}

func (b *Bucket) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	sum, err := b.sum(body)
	if err != nil {
		return objectfs.Part{}, err
	}
	lent := lend(body)
	defer lent.giveBack()
	p, err := repeat(ctx, b, func() (minio.ObjectPart, error) {
		return b.core.PutObjectPart(ctx, b.name, key, id, number, lent.reader(), body.Size(),
			minio.PutObjectPartOptions{DisableContentSha256: true, Sha256Hex: sum})
	})
	return objectfs.Part{Number: number, Size: body.Size(), ETag: p.ETag}, err
}

func (b *Bucket) CopyPart(ctx context.Context, key, id string, number int, from, etag string,
	offset, length int64) (objectfs.Part, error) {
	p, err := repeat(ctx, b, func() (minio.CompletePart, error) {
		return b.core.CopyObjectPart(ctx, b.name, from, b.name, key, id, number, offset, length,
			b.conditions(etag, objectfs.Condition{}))
	})
	return objectfs.Part{Number: number, Size: length, ETag: strings.Trim(p.ETag, `"`)}, err
}

func (b *Bucket) ListParts(ctx context.Context, key, id string,
	after int) (list []objectfs.Part, more bool, err error) {
	result, err := repeat(ctx, b, func() (minio.ListObjectPartsResult, error) {
		return b.core.ListObjectParts(ctx, b.name, key, id, after, 1000)
	})
	for _, p := range result.ObjectParts {
		list = append(list, objectfs.Part{Number: p.PartNumber, Size: p.Size,
			ETag: strings.Trim(p.ETag, `"`)})
	}
	return list, result.IsTruncated, err
}

func (b *Bucket) Complete(ctx context.Context, key, id string, parts []objectfs.Part,
	when objectfs.Condition) (objectfs.Object, error) {
	list := make([]minio.CompletePart, len(parts))
	for i, p := range parts {
		list[i] = minio.CompletePart{PartNumber: p.Number, ETag: p.ETag}
	}
	made, err := known(&b.lacks.completions, when, func(when objectfs.Condition) (minio.UploadInfo,
		error) {
		options := b.options(when)
		options.ServerSideEncryption = nil // set when the upload began
		return change(ctx, b, func(ctx context.Context) (minio.UploadInfo, error) {
			return b.core.CompleteMultipartUpload(ctx, b.name, key, id, list, options)
		})
	})
	return objectfs.Object{Key: key, ETag: strings.Trim(made.ETag, `"`),
		Modified: made.LastModified}, err
}

func (b *Bucket) Abort(ctx context.Context, key, id string) error {
	return b.done(ctx, func() error {
		return b.core.AbortMultipartUpload(ctx, b.name, key, id)
	})
}

func (b *Bucket) ListUploads(ctx context.Context, prefix,
	token string) (list []objectfs.Started, next string, err error) {
	key, id, _ := strings.Cut(token, "\x00")
	result, err := repeat(ctx, b, func() (minio.ListMultipartUploadsResult, error) {
		return b.core.ListMultipartUploads(ctx, b.name, prefix, key, id, "", 1000)
	})
	for _, u := range result.Uploads {
		list = append(list, objectfs.Started{Key: u.Key, ID: u.UploadID, Begun: u.Initiated})
	}
	if result.IsTruncated {
		next = result.NextKeyMarker + "\x00" + result.NextUploadIDMarker
	}
	return list, next, err
}
