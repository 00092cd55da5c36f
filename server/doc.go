// Package server serves files to SFTP clients over any byte stream.
//
// [Serve] runs one session: it speaks version 3 of the protocol (draft-ietf-secsh-filexfer-02,
// "draft-02" below) and OpenSSH's extensions with the client at the other end of a stream, and
// calls a backend for everything that concerns files. A backend is an [FS] and as many of this
// package's optional interfaces as it supports; each states the answer that clients get without it.
// Package osfs serves a directory, package memfs a tree in memory, and package sshd accepts SSH
// connections.
//
// # Concurrency and order
//
// A session's requests run concurrently and replies are sent as they are ready, except where order
// matters. Replies to requests on one handle are sent in the order of the requests, since some
// clients depend on that. A request waits for earlier ones on the same handle that could affect its
// result: reads run at the same time, as do writes that do not overlap; an fstat waits for writes,
// a close for everything. A request that names a path waits for earlier requests on related paths
// if either changes something: the same path, a path above or below it, or a handle opened by it.
// Paths are compared as written: two names of one file, through a link, count as two paths. A slow
// request delays only the requests that wait for it.
//
// # Events
//
// A session reports events as values, see [Event]: each file that is opened and closed, each change
// to the tree, each request that is denied. Log lines are made from them. A [Gate] is asked before
// a change of names, and before a file that was written is closed, and can refuse it.
//
// # Bounds
//
// A session holds a limited number of handles, requests and bytes (see [Options]). When a client
// has used them up, for example by requesting much and reading none of the replies, the session
// stops reading requests until replies have been sent.
package server
