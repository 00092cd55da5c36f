// Package bench measures usftp against its peers: over pipes to OpenSSH's sftp-server here, as Go
// benchmarks, and over SSH and long links with cmd/bench. The module is one of its own so that no
// peer enters the module graph of usftp's users. It runs on Linux.
package bench
