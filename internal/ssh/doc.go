// Package ssh is our own SSH transport: packets, key exchange, user authentication and session
// channels, for the client and the server. It is not a general SSH library. Keys, signers,
// certificates, agents and known_hosts are x/crypto/ssh's; the cryptography is the standard
// library's and x/crypto's.
//
// A connection has one reading goroutine (see [Conn]): it opens packets in place, and channels read
// from there with a single copy. Writers copy into the staged block (see output), which is sealed
// in place and written with one system call.
//
// The protocol is RFC 4251 to 4254; RFC 5647 and OpenSSH's PROTOCOL describe AES-GCM,
// PROTOCOL.chacha20poly1305 the other AEAD; RFC 8308 is EXT_INFO, RFC 8731 curve25519.
package ssh
