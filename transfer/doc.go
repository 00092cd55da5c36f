// Package transfer copies files between this machine and SFTP servers: whole, or not at all.
//
// A [Job] copies one file. The data goes into a file with a temporary name beside the target, which
// takes the target's place when all of it has arrived; so whoever looks at the target sees the old
// file or the new one, and a job that fails leaves the old one. Where that cannot be (the target is
// a device, a pipe, a file with several names; the directory takes no new name), the target is
// written in place, and the job says so.
//
// A copy from this machine to itself ([Local]) needs no host. The file system shares the blocks
// where it can, and holes stay holes.
//
// The contents can be hashed while they pass, for the result, for a [Manifest], to be compared with
// a [List] or with what the host has stored; see [Options]. A [Check] compares files with a List
// without copying any.
//
// What a job does comes as a stream of [Event] values, for a progress bar, a log or another
// program.
package transfer
