package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/usftp/usftp/bench/servers"
)

// minioMain does one job of the rows of object storage with minio-go: HERE/source becomes the
// object "target", "source" becomes HERE/target, or the keys of "many/" are printed.
func minioMain(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: bench objects put|get|list")
	}
	core, err := openMinio(os.Getenv("ENDPOINT"))
	if err != nil {
		return err
	}
	ctx, here := context.Background(), os.Getenv("HERE")
	bucket, prefix := os.Getenv("BUCKET"), servers.StoragePrefix
	switch arguments[0] {
	case "put":
		return minioPut(ctx, core, bucket, prefix+"target", here+"/source")
	case "get":
		return core.FGetObject(ctx, bucket, prefix+"source", here+"/target",
			minio.GetObjectOptions{})
	case "list":
		out := bufio.NewWriter(os.Stdout)
		for o := range core.Client.ListObjects(ctx, bucket, minio.ListObjectsOptions{
			Prefix: prefix + "many/"}) {
			if o.Err != nil {
				return o.Err
			}
			fmt.Fprintln(out, o.Key)
		}
		return out.Flush()
	}
	return fmt.Errorf("there is no job %q", arguments[0])
}

func openMinio(endpoint string) (*minio.Core, error) {
	return minio.NewCore(strings.TrimPrefix(endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(servers.StorageAccess, servers.StorageSecret, ""),
		// Contents are signed, as by usftpd without TLS; some storage refuses checksums behind.
		Region: servers.StorageRegion, BucketLookup: minio.BucketLookupPath})
}

// minioPut stores a file in parts as long as those of usftpd, as many at a time as minio-go likes.
func minioPut(ctx context.Context, core *minio.Core, bucket, key, file string) error {
	_, err := core.FPutObject(ctx, bucket, key, file, minio.PutObjectOptions{PartSize: 5 << 20})
	return err
}
