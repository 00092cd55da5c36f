// Package sftpfs presents a directory on an SFTP server as a FUSE file system.
//
// It implements go-fuse's RawFileSystem rather than using the tree of nodes that go-fuse builds on
// top of it: a remote file system must decide for itself how long names, attributes and open files
// stay valid when others change the server's files, when the connection is lost, and when a file is
// renamed or removed while it is open.
//
// The files: requests that survive a lost connection (link.go), the nodes that the kernel knows and
// their names (node.go) until it is asked to forget them (forget.go), attributes (attrs.go),
// listings (listing.go) and those made before a program asks for them (prefetch.go), open files
// (open.go), those replaced on the host (replaced.go), read-ahead (read.go), write-behind
// (write.go) over several sessions (lanes.go), data that could not be written (rescue.go), changes
// of names (names.go) and of attributes (setattr.go).
package sftpfs
