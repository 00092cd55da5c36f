//go:build !race

package ssh

import (
	"io"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// TestSteadyStateAllocatesNothing counts the allocations for 256 KiB of data on each side.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, cipher := range []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com",
		"aes128-ctr"} {
		t.Run(cipher, func(t *testing.T) {
			r, w := io.Pipe()
			defer r.Close()
			sender := sending(t, pipeConn{w: w}, cipher)
			m := deafMux(nil)
			m.receives(t, r, cipher)
			ch := m.openChannel()
			ch.window = window{size: 1 << 50, left: 1 << 50}
			go func() {
				for {
					p, err := m.t.read()
					if err != nil {
						return
					}
					if err := m.handle(p); err != nil {
						panic(err)
					}
				}
			}()
			p, got := make([]byte, 256<<10), make([]byte, 256<<10)
			parts := [][]byte{p[:29], p[29:]}
			cycle := func() {
				if _, err := sender.WriteBuffers(parts); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(ch, got); err != nil {
					t.Fatal(err)
				}
			}
			for range 50 {
				cycle()
			}
			if n := testenv.Allocations(200, cycle); n >= 2 {
				t.Errorf("256 KiB cost %v allocations", n)
			}
		})
	}
}

// TestShortPiecesAllocateNothing: a queue reuses the memory of pieces that have been read.
func TestShortPiecesAllocateNothing(t *testing.T) {
	var q queue
	data, got := make([]byte, 100), make([]byte, 250)
	n := testenv.Allocations(1000, func() {
		for range 5 {
			q.push(data, nil)
		}
		for range 2 {
			q.read(got)
		}
	})
	if n > 0 || q.size != 0 {
		t.Errorf("%v allocations, and %d bytes are left", n, q.size)
	}
}

type pipeConn struct {
	capture
	w io.Writer
}

func (p pipeConn) Write(b []byte) (int, error) { return p.w.Write(b) }
