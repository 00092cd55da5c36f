package ssh

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
)

// Compression: RFC 4253, section 6.2, as zlib@openssh.com, which begins only after the login
// (draft-miller-secsh-compression-delayed-00), so that only logged-in users can feed the
// decompressor. Each direction is one zlib stream, which is flushed after each packet and starts
// over with new keys, as OpenSSH's does.

const (
	delayedZlib = "zlib@openssh.com"

	// zlibLevel makes text as small as zlib's 6, which is OpenSSH's.
	zlibLevel = 7

	// maxInflated limits a decompressed packet. Ours and OpenSSH's are of at most 32 KiB then.
	maxInflated = maxPacketLength
)

// compressions returns the methods to offer, in order of preference: a client that offers
// compression wants it, and the client's order decides.
func (a Algorithms) compressions(client bool) []string {
	switch {
	case !a.Compress:
		return []string{uncompressed}
	case client:
		return []string{delayedZlib, uncompressed}
	}
	return []string{uncompressed, delayedZlib}
}

// deflater returns the compressor for the packets that we send, nil before the login or without
// compression.
func (t *transport) deflater(n Negotiated) *deflater {
	if t.login || n.Compressions[t.way()] != delayedZlib {
		return nil
	}
	d := newDeflater()
	if all := t.algorithms.Compressed; all != nil {
		d.count = &all.Sent
	}
	return d
}

// inflater returns the decompressor for the packets that we receive, nil likewise.
func (t *transport) inflater(n Negotiated) *inflater {
	if t.login || n.Compressions[1-t.way()] != delayedZlib {
		return nil
	}
	f := new(inflater)
	if all := t.algorithms.Compressed; all != nil {
		f.count = &all.Received
	}
	return f
}

// Compressed counts compression's work in both directions.
type Compressed struct{ Sent, Received CompressedWay }

// CompressedWay counts bytes of payloads before and after compression, and the nanoseconds that it
// took on this side, between First and Last (of Unix time).
type CompressedWay struct{ Plain, Packed, Spent, First, Last atomic.Int64 }

// add counts one payload. A nil CompressedWay counts nothing.
func (w *CompressedWay) add(plain, packed int, began time.Time) {
	if w != nil {
		w.Plain.Add(int64(plain))
		w.Packed.Add(int64(packed))
		now := time.Now()
		w.Spent.Add(int64(now.Sub(began)))
		w.First.CompareAndSwap(0, began.UnixNano())
		w.Last.Store(now.UnixNano())
	}
}

// way returns the direction in which we send.
func (t *transport) way() int {
	if t.client {
		return clientToServer
	}
	return serverToClient
}

// A deflater compresses the payloads of one direction.
type deflater struct {
	out   bytes.Buffer
	to    *zlib.Writer
	count *CompressedWay
}

func newDeflater() *deflater {
	d := new(deflater)
	d.to, _ = zlib.NewWriterLevel(&d.out, zlibLevel) // the level is valid
	return d
}

// deflate returns a compressed payload, which is valid until the next call.
func (d *deflater) deflate(payload []byte) []byte {
	began := time.Now()
	d.out.Reset()
	d.to.Write(payload) // a Buffer takes everything
	d.to.Flush()
	d.count.add(len(payload), d.out.Len(), began)
	return d.out.Bytes()
}

// An inflater decompresses the payloads of one direction. A packet may end anywhere in a byte, and
// with the beginning of a block that continues in the next packet: zlib's partial flush, which
// OpenSSH uses, ends in the middle of an empty block. A decompressor wants to read ahead. So each
// packet gets a decompressor of its own, which begins at the end of the last whole block before it
// and has zeros to read behind the packet; their output does not count.
type inflater struct {
	begun  bool   // the stream's header has been read
	left   []byte // the bytes after the last whole block
	skip   uint8  // bits of left[0] that belong to that block
	window []byte // data to which blocks may refer

	in, out []byte // memory
	count   *CompressedWay
}

const (
	// readAhead is enough for any code and an empty block.
	readAhead = 8

	// maxLeft is more than any flush puts after a packet's last whole block: parts of two empty
	// blocks.
	maxLeft = 8
)

var errInflate = &ProtocolError{"compressed data is corrupt or becomes too much"}

// inflate returns a decompressed payload, which is valid until the next call. An error is final.
func (f *inflater) inflate(payload []byte) ([]byte, error) {
	began, packed := time.Now(), len(payload)
	if !f.begun {
		if !isZlib(payload) {
			return nil, errInflate
		}
		f.begun, payload = true, payload[2:]
	}
	f.in = append(append(f.in[:0], f.left...), payload...)
	end := int64(len(f.in)) * 8
	f.in = append(f.in, make([]byte, readAhead)...)
	var at, size int64 // the end of the last whole block, in bits, and of its output
	over := false
	z := flate.NewReaderOpts(bytes.NewReader(f.in), flate.WithPartialBlock(),
		flate.WithResumeFrom(flate.InflateCheckpoint{BitOffset: f.skip, Window: f.window}),
		flate.WithEobCallback(func(c flate.InflateCheckpoint) {
			bit := c.CompressedOffset*8 + int64(c.BitOffset)
			if over = over || bit > end; over || c.Final {
				return
			}
			at, size = bit, c.UncompressedOffset
			f.window = append(f.window[:0], c.Window...)
		}))
	f.out = f.out[:0]
	for !over {
		if len(f.out) > maxInflated {
			return nil, errInflate
		}
		f.out = slices.Grow(f.out, idleSize)
		n, err := z.Read(f.out[len(f.out):cap(f.out)])
		if f.out = f.out[:len(f.out)+n]; err != nil {
			break // at the zeros, or where the next check finds it
		}
	}
	if size < 1 || size > int64(min(len(f.out), maxInflated)) || end-at > maxLeft*8 {
		return nil, errInflate
	}
	f.left = append(f.left[:0], f.in[at/8:end/8]...)
	f.skip = uint8(at % 8)
	f.count.add(int(size), packed, began)
	return f.out[:size], nil
}

// isZlib reports whether p begins a zlib stream: RFC 1950, section 2.2.
func isZlib(p []byte) bool {
	const deflate, largestWindow, dictionary = 8, 7, 0x20
	return len(p) > 2 && p[0]&0xf == deflate && p[0]>>4 <= largestWindow && p[1]&dictionary == 0 &&
		(uint(p[0])<<8|uint(p[1]))%31 == 0
}
