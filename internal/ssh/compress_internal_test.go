package ssh

import (
	"bytes"
	"testing"

	"github.com/klauspost/compress/flate"
)

// FuzzInflate: what two packets decompress to is bounded, and is what was compressed if it was.
func FuzzInflate(f *testing.F) {
	f.Add([]byte("hello, hello, hello"), []byte("hello again"))
	d := newDeflater()
	f.Add(bytes.Clone(d.deflate([]byte("hello"))), bytes.Clone(d.deflate([]byte("hello again"))))
	f.Add(bytes.Clone(newDeflater().deflate(make([]byte, 1<<20))), []byte{1})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		hostile := new(inflater)
		for _, p := range [][]byte{first, second} {
			out, err := hostile.inflate(p)
			if len(out) > maxInflated || (err == nil) != (len(out) > 0) {
				t.Errorf("%d bytes, %v", len(out), err)
			}
			if err != nil {
				break
			}
		}
		if len(first) == 0 || len(second) == 0 {
			return
		}
		d, honest := newDeflater(), new(inflater)
		for _, p := range [][]byte{first, second, first} {
			if out, err := honest.inflate(d.deflate(p)); err != nil || !bytes.Equal(out, p) {
				t.Errorf("%.40q became %.40q, %v", p, out, err)
			}
		}
	})
}

// TestInflatePieces: a packet may end anywhere in the stream; what has no block's end in it yet is
// no message.
func TestInflatePieces(t *testing.T) {
	var stream bytes.Buffer
	w, err := flate.NewWriter(&stream, zlibLevel)
	if err != nil {
		t.Fatal(err)
	}
	stream.Write([]byte{0x78, 0x9c})
	w.Write(bytes.Repeat([]byte("hello "), 100))
	w.Flush()
	for cut := range stream.Len() {
		f := new(inflater)
		out, err := f.inflate(stream.Bytes()[:cut])
		if (err == nil) != (len(out) > 0) || len(out) > 600 {
			t.Errorf("%d of %d bytes: %d, %v", cut, stream.Len(), len(out), err)
		}
	}
}
