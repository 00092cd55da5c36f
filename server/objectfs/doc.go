// Package objectfs serves the objects of a bucket as files.
//
// A [Bucket] is what storage that speaks S3 offers. Keys are paths: directories are where a key
// with a slash below them exists, or a marker, an empty object whose key ends in a slash.
//
// A file that is written appears when it is closed, with one request, and until then the object
// that it replaces stays. A file whose session ends before CLOSE, or a WRITE of which failed, never
// appears. What had arrived of a new file is kept as parts, and a client that opens it again
// without truncating it goes on from there: STAT says from where.
//
// [docs/objects.md] lists what each request of SFTP becomes.
//
// [docs/objects.md]: https://github.com/usftp/usftp/blob/main/docs/objects.md
package objectfs
