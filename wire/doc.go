// Package wire holds the packets of SFTP version 3 and of the OpenSSH extensions as Go values, for
// client and server alike.
//
// It appends packets to byte slices and parses them from byte slices. It does no I/O, starts no
// goroutine and uses no reflection. The protocol is draft-ietf-secsh-filexfer-02 ("draft-02"
// below), the extensions are those of OpenSSH's PROTOCOL file, section 4, and of
// draft-ietf-secsh-filexfer-extensions-00.
//
// # Appending
//
// Every message has an Append method that appends the whole packet, its length field included, and
// returns the longer slice. It allocates only when the slice has to grow:
//
//	buf = wire.PathRequest{Type: wire.TypeStat, Path: "/etc/motd"}.Append(buf[:0], id)
//
// The two packets that carry file contents, [Write] and [Data], also have AppendHeader, which
// appends all but the contents, so that these can be sent in place.
//
// # Parsing
//
// [ParseHeader] splits a packet into its type, its request id and its body, for which each message
// has a Parse method. Every length is checked before it is trusted; a packet that ends too early is
// [ErrShort]. Byte slices in a parsed message alias the body, strings are copies. Bytes after the
// last field are ignored, as OpenSSH ignores them: some servers append fields of their own.
package wire
