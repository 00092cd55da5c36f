// Package usftp is a client for SFTP: remote files with the interface of package os, at the speed
// of the link.
//
// It speaks version 3 of the protocol (draft-ietf-secsh-filexfer-02, "draft-02" in these pages), as
// all servers of note do, and the extensions of OpenSSH (its file PROTOCOL, section 4). Package
// dial leads from "user@host" to a client, package transfer moves whole files and trees over many
// connections, and package server is the other end.
//
// # Clients and files
//
// A [Client] is one SFTP session on one stream: [NewClient] opens it on an SSH connection,
// [NewClientPipe] on any stream. A [File] is a remote file, open or closed. Open, Create and
// OpenFile return open ones; ReadDir, Entries and Walk return closed ones that carry their
// attributes, so that nothing has to be asked twice, and that can be opened.
//
//	client, err := usftp.NewClient(sshClient)
//	...
//	f, err := client.Open("logs/today")
//	...
//	_, err = f.WriteTo(os.Stdout)
//
// Names are the server's: slashes everywhere, and relative ones start in the directory that
// [Client.Getwd] tells, usually the user's home.
//
// # What costs a round trip
//
// Over a long link a program is as slow as the round trips that it waits for. Every method's page
// says how many it takes. In short:
//
//   - An operation on a name, opening a file included, takes one. Closing a file that was only read takes none.
//   - [File.WriteTo], [File.ReadFrom], [File.ReadAt], [File.WriteAt], [Client.ReadFile] and [Client.WriteFile] send as many requests at once
//     as the link holds: one round trip for what the link holds, and its rate for what is larger. So does io.Copy, which calls WriteTo
//     or ReadFrom.
//   - A loop of [File.Read] is read ahead from its second Read on. A loop of [File.Write] waits for each; a loop on [File.Writer], or
//     under [WithWriteBehind], does not.
//   - [Client.WalkDir], [Client.RemoveAll] and [Client.MkdirAll] have many directories in flight. [Client.ReadDir] reads one directory
//     packet by packet, and many packets at once from servers that are known to work strictly in order, as OpenSSH's does.
//   - Any number of operations can be in flight: from many goroutines, or started from one by [Client.Async] and [File.Async], whose
//     results are [Pending]. [Batch] does so for a whole list of names.
//
// [Client.Stats] counts round trips and bytes.
//
// # Concurrency
//
// All methods of clients, files and pending results may be called from any number of goroutines at
// once. Requests share the connection and do not wait for each other; a short one never waits
// behind more than a MiB of somebody's upload. Methods of a File that use its offset (Read, Write,
// Seek, ReadFrom, WriteTo) take turns. A user's own code, the Write of a WriteTo or the function of
// a Then, never runs on the connection's goroutines: a slow one slows itself.
//
// # Contexts
//
// [Client.WithContext] and [File.WithContext] return views that share everything with what they
// were made of and whose calls end when the context is done, at once and with its cause. What was
// asked of the server may still happen; the connection goes on. Close does not depend on a context,
// and takes bounded time.
//
//	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
//	defer cancel()
//	info, err := client.WithContext(ctx).Stat("logs/today")
//
// # Errors
//
// Errors are [*io/fs.PathError] or [*os.LinkError], which name the operation and the file. Inside
// is, where the server has refused, a [*StatusError] with its code and its words; where the
// connection has ended, the reason: [ErrClosed], [*LostError], [*StallError], [*ProtocolError] or
// [*NotSFTPError], for all of which errors.Is(err, net.ErrClosed) holds. A *ProtocolError for which
// it does not hold is about one broken reply: that operation has failed, and the connection goes
// on.
//
// Use errors.Is with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and errors.ErrUnsupported:
// os.IsNotExist and its like do not see through wrapped errors. The end of a file is io.EOF, bare.
// Version 3 of the protocol has few codes, and most of what goes wrong is FAILURE; where it matters
// whether a name is taken (Mkdir, O_EXCL, Rename, links), that is looked into, so that fs.ErrExist
// can be relied on.
//
// After an error of ReadFrom the count says how many bytes are safe on the server, from the
// beginning and without a gap.
//
// # Memory
//
// Contents in flight, and what was read ahead, stay within [WithMaxInFlight] for the whole client,
// 32 MiB unless it is said otherwise, and one transfer within half of it. How much of that is used
// follows from the link: about twice what it holds. Memory does not grow with the size of a file;
// blocks that nobody uses are let go after some seconds. A client that does nothing is two
// goroutines and some tens of KiB.
//
// A buffer that was given to a method is the caller's again when the method returns, cancelled or
// not; that of an operation which was started, when its result is there.
//
// # Servers that differ
//
// What a server offers is used where it is offered: limits@openssh.com for the size of packets,
// posix-rename, statvfs, lsetstat, copy-data, check-file and others, each behind a method of its
// own that fails with errors.ErrUnsupported where it is not. A server that reads less than it was
// asked for, answers in any order, lists a directory in one huge packet, knows no FSTAT, opens no
// file for both ways, or takes one write at a time is noticed and served; [WithLogger] hears of it.
// [Client.Raw] and [Client.Extended] give access to the requests themselves.
//
// docs/coming-from-pkg-sftp.md in the repository maps every name of github.com/pkg/sftp to its
// place here.
package usftp
