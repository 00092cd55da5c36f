// Package bigpipe makes pipes of the operating system's larger. With the kernel's 64 KiB a packet
// of 255 KiB takes four turns of reader and writer, each waiting for the other; in a large pipe it
// passes at once, which more than doubles the rate.
package bigpipe

// Size is what pipes are widened to: the most that an unprivileged process may ask for
// (/proc/sys/fs/pipe-max-size). It holds four of the largest packets.
const Size = 1 << 20
