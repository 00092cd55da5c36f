// Package usftp is a client for SFTP: remote files with the interface of package os, at the speed
// of the link.
//
// To copy whole files and trees, start with [github.com/usftp/usftp/transfer.CopyTree] and
// [github.com/usftp/usftp/pool.Connect]: they log in to "user@host" as ssh does, use several
// connections, report progress, resume and verify. This package is for everything else: reading and
// writing parts of remote files, listing, renaming, removing. Package server is the other end.
//
// The client speaks version 3 of the protocol (draft-ietf-secsh-filexfer-02, here called draft-02),
// as all common servers do, and the extensions of OpenSSH (section 4 of its PROTOCOL file).
//
// # Clients and files
//
// A [Client] is one SFTP session on one stream: [NewClient] opens it on an SSH connection,
// [NewClientPipe] on any stream. A [File] is a remote file, open or closed. Open, Create and
// OpenFile return open ones. ReadDir, Entries and Walk return closed ones that carry their
// attributes and can be opened.
//
//	client, err := usftp.NewClient(sshClient)
//	...
//	f, err := client.Open("logs/today")
//	...
//	_, err = f.WriteTo(os.Stdout)
//
// Names are the server's. They use slashes everywhere, and relative ones start in the directory
// returned by [Client.Getwd], usually the user's home.
//
// # Round trips
//
// Over a long link a program is as slow as the round trips it waits for. Every method says how many
// it takes. In short:
//
//   - An operation on a name, such as opening a file, takes one. Closing a file that was only read
//     takes none.
//   - [File.WriteTo], [File.ReadFrom], [File.ReadAt], [File.WriteAt], [Client.ReadFile] and
//     [Client.WriteFile] send as many requests at once as the link holds: data that fits the link
//     takes one round trip, and larger files move at its rate. So does io.Copy, which calls WriteTo
//     or ReadFrom.
//   - Sequential calls of [File.Read] are read ahead from the second on. Calls of [File.Write] wait
//     for each other; calls of a [File.Writer], or under [WithWriteBehind], do not.
//   - [Client.WalkDir], [Client.RemoveAll] and [Client.MkdirAll] work on many directories at once.
//     [Client.ReadDir] reads one directory packet by packet, and many packets at once from servers
//     that are known to work in order, such as OpenSSH's.
//   - Any number of operations can be in flight, from many goroutines or started from one with
//     [Client.Async] and [File.Async], which return a [Pending] result. [Batch] does so for a list
//     of names.
//
// [Client.Stats] counts round trips and bytes.
//
// # Concurrency
//
// All methods of clients, files and pending results may be called concurrently. Requests share the
// connection and do not wait for each other; a short one never waits behind more than 1 MiB of an
// upload. Methods of a File that use its offset (Read, Write, Seek, ReadFrom, WriteTo) take turns.
// The caller's own code, such as the Write of a WriteTo or the function of a Then, never runs on
// the connection's goroutines, so slow code delays only itself.
//
// # Contexts
//
// [Client.WithContext] and [File.WithContext] return views that share everything with the original
// and whose calls end, at once and with its cause, when the context is done. The server may still
// carry out the request, and the connection stays usable. Close does not depend on a context and
// returns in bounded time.
//
//	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
//	defer cancel()
//	info, err := client.WithContext(ctx).Stat("logs/today")
//
// # Errors
//
// Errors are [*io/fs.PathError] or [*os.LinkError], which name the operation and the file. They
// wrap the server's refusal, a [*StatusError] with its code and message, or the reason why the
// connection has ended: [ErrClosed], [*LostError], [*StallError], [*ProtocolError] or
// [*NotSFTPError], all of which match [net.ErrClosed]. A *ProtocolError that does not match it is
// about one broken reply: that operation has failed, and the connection stays usable. The end of a
// file is io.EOF, unwrapped.
//
// An error matches another if errors.Is reports so. Use errors.Is with fs.ErrNotExist, fs.ErrExist,
// fs.ErrPermission and errors.ErrUnsupported: os.IsNotExist, os.IsExist and os.IsPermission do not
// see through wrapped errors. Version 3 of the protocol has few codes, and most refusals are
// FAILURE. If it matters whether a name exists (Mkdir, O_EXCL, Rename, links), the package finds
// out, so fs.ErrExist can be relied on. An error of reading a directory matches syscall.EISDIR.
//
// After an error of ReadFrom the count says how many bytes are safe on the server, without a gap.
//
// # Memory
//
// Contents in flight, and data read ahead, stay within [WithMaxInFlight] for the whole client,
// 32 MiB by default, and one transfer stays within half of it. How much of that is used depends on
// the link: at most twice its capacity. Memory does not grow with the size of a file, and unused
// blocks are freed after some seconds. An idle client is two goroutines, or three if it is
// [NewClient]'s, and some tens of KiB.
//
// The caller may reuse a buffer as soon as the method to which it was passed has returned,
// cancelled or not; for an operation that was started, when it is complete.
//
// # Servers that differ
//
// The package uses a server's extensions: limits@openssh.com for the size of packets, and
// posix-rename, statvfs, lsetstat, copy-data, check-file and others through separate methods, which
// fail with errors.ErrUnsupported without them. It works with servers that return less than they
// were asked for, answer in any order, list a directory in one huge packet, lack FSTAT, open no
// file for both reading and writing, or take one write at a time; a logger set by [WithLogger]
// records that. [Client.Extended] and [Client.Raw] send requests directly.
//
// docs/coming-from-pkg-sftp.md in the repository maps every name of github.com/pkg/sftp to its
// counterpart here.
package usftp
