// Package server serves files to SFTP clients over any byte stream.
//
// [Serve] runs one session: it speaks version 3 of the protocol (draft-ietf-secsh-filexfer-02,
// "draft-02" below) and OpenSSH's extensions with the client at the other end of a stream, and
// calls a backend for everything that concerns files. A backend is an [FS] and as many of the
// optional interfaces of this package as it can honour: each says what a client is told when it is
// absent. Package osfs serves a directory, package memfs a tree in memory, package sshd puts SSH
// under the stream.
//
// # Concurrency and order
//
// Requests of a session run concurrently and replies go out as they are ready, except where order
// matters. Replies to requests on one handle go out in the order of the requests, as there are
// clients that cannot do without. A request waits for the earlier ones on the same handle that its
// result depends on: reads run beside reads, writes beside writes that do not overlap; an fstat
// waits for writes, a close for everything. A request that names a path waits for earlier requests
// that touch the path and where one of the two changes something: the same path, one above or below
// it, or a handle opened by it. Paths are compared as they are written: two names of one file, by
// way of a link, are two paths here. A slow request delays only those that wait for it.
//
// # Bounds
//
// A session holds a limited number of handles, of requests and of bytes (see [Options]). When a
// client has used them up, say by asking for much and reading none of it, its session stops reading
// requests until replies have gone out.
package server
