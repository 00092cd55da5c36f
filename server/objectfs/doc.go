// Package objectfs serves the objects of a bucket as files.
//
// A [Bucket] is the interface to S3 storage. Keys are paths: a directory exists where there is a
// key below it, or its marker, an empty object whose key ends in a slash.
//
// A written file appears when it is closed, with one request; until then the object that it
// replaces stays. A file whose session ends before CLOSE, or one of whose WRITEs failed, never
// appears. The data that had arrived of a new file is kept as parts, and a client that opens it
// again without truncating it continues from there: STAT returns that length.
//
// [docs/objects.md] lists the storage requests that each SFTP request becomes.
//
// [docs/objects.md]: https://github.com/usftp/usftp/blob/main/docs/objects.md
package objectfs
