// Package bigpipe enlarges pipes. With the kernel's 64 KiB, a packet of 255 KiB takes four turns of
// the reader and the writer, each waiting for the other. A large pipe takes it at once, which more
// than doubles the rate.
package bigpipe

// Size is the size of enlarged pipes: the most that an unprivileged process may ask for
// (/proc/sys/fs/pipe-max-size). It holds four of the largest packets.
const Size = 1 << 20
