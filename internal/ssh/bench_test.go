package ssh

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
)

// These benchmarks have no peer: they measure one side with a stream of 64 MiB. Compare `-cpu 1,2`.

const benchSize = 64 << 20

// capture is a connection that keeps or drops what is written.
type capture struct {
	net.Conn
	kept *bytes.Buffer
}

func (c capture) Write(p []byte) (int, error) {
	if c.kept != nil {
		return c.kept.Write(p)
	}
	return len(p), nil
}

func benchKeys(cipher string) (*cipherSpec, keys) {
	c := cipherNamed(cipher)
	k := keys{iv: make([]byte, c.iv), key: make([]byte, c.key)}
	if !c.aead {
		k.spec = macNamed("hmac-sha2-256-etm@openssh.com")
		k.mac = make([]byte, k.spec.key)
	}
	return c, k
}

// sending returns a channel whose data is encrypted and sent to conn.
func sending(tb testing.TB, conn net.Conn, cipher string) *Channel {
	c, k := benchKeys(cipher)
	s, err := c.newCipher(k)
	if err != nil {
		tb.Fatal(err)
	}
	t := newTransport(conn, nil, Supported(), 1<<50)
	tb.Cleanup(func() { close(t.ended); t.out.abort(ErrClosed) })
	t.out.setSealer(s)
	t.out.flusher = true
	go t.out.flush()
	ch := newChannel(newMux(t, &Conn{t: t}, 0))
	ch.peerWindow, ch.peerMax = 1<<60, maxData
	return ch
}

// deafMux returns the mux of a connection whose messages nobody gets.
func deafMux(buffers *Buffers) *mux {
	t := newTransport(capture{}, buffers, Supported(), 1<<50)
	return newMux(t, &Conn{t: t, done: make(chan struct{})}, 0)
}

// openChannel adds a channel that both sides have opened.
func (m *mux) openChannel() *Channel {
	ch := newChannel(m)
	close(ch.opened)
	m.add(ch)
	return ch
}

// receives lets the connection read packets from source, encrypted with benchKeys.
func (m *mux) receives(tb testing.TB, source io.Reader, cipher string) {
	c, k := benchKeys(cipher)
	o, err := c.newCipher(k)
	if err != nil {
		tb.Fatal(err)
	}
	in := m.t.in
	in.source = source
	in.setOpener(o)
	m.t.login, in.batch, in.limit, in.idle = false, true, maxPacketLength, m.wakeReaders
	in.maxKept.Store(1 << 20)
}

// waiting returns how much has been received but not read.
func (c *Channel) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data.size
}

// drain waits until everything written has been sent.
func (c *Channel) drain() {
	o := c.mux.t.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.stage.size > 0 || o.writing {
		o.change.Wait()
	}
}

func BenchmarkSeal(b *testing.B) {
	for _, cipher := range []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com"} {
		b.Run(cipher, func(b *testing.B) {
			ch := sending(b, capture{}, cipher)
			p := make([]byte, 255<<10)
			parts := [][]byte{p[:29], p[29:]}
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				for n := 0; n < benchSize; n += len(p) {
					if _, err := ch.WriteBuffers(parts); err != nil {
						b.Fatal(err)
					}
				}
				ch.drain()
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, cipher := range []string{"aes128-gcm@openssh.com", "chacha20-poly1305@openssh.com"} {
		b.Run(cipher, func(b *testing.B) {
			var sealed bytes.Buffer
			ch := sending(b, capture{kept: &sealed}, cipher)
			p := make([]byte, 256<<10)
			for n := 0; n < benchSize; n += len(p) {
				ch.Write(p)
			}
			ch.drain()
			b.SetBytes(benchSize)
			b.ReportAllocs()
			buffers := new(Buffers)
			for b.Loop() {
				m := deafMux(buffers)
				m.receives(b, bytes.NewReader(sealed.Bytes()), cipher)
				ch := m.openChannel()
				ch.window = window{size: 1 << 50, left: 1 << 50}
				done := make(chan int)
				go func() {
					p, n := make([]byte, 256<<10), 0
					for n < benchSize {
						m, err := io.ReadFull(ch, p)
						n += m
						if err != nil {
							break
						}
					}
					done <- n
				}()
				for {
					p, err := m.t.read()
					if err != nil {
						break
					}
					if err := m.handle(p); err != nil {
						b.Fatal(err)
					}
					for ch.waiting() > firstWindow { // like a peer that has to wait for the window
						m.wakeReaders()
						runtime.Gosched()
					}
				}
				m.wakeReaders()
				if n := <-done; n != benchSize {
					b.Fatalf("%d bytes came", n)
				}
				close(m.t.ended)
			}
		})
	}
}
