// Package sftpfs is a directory on an SFTP server as a FUSE file system.
//
// It implements go-fuse's RawFileSystem and not the tree of nodes that go-fuse builds on top: a
// remote file system must decide itself what a name, an attribute and an open file are worth when
// others change the server's files, when the connection is lost, and when a file is renamed or
// removed while it is open.
//
// What there is, file by file: requests that survive a lost connection (link.go), the nodes that
// the kernel knows and their names (node.go), attributes (attrs.go), listings (listing.go), open
// files (open.go), reading ahead (read.go), writing behind (write.go), what could not be written
// (rescue.go), changes of names (names.go) and of attributes (setattr.go).
package sftpfs
