package bench

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/internal/machine"
	"golang.org/x/sys/unix"
)

// The least that a client can do to copy a file over SSH with AES-GCM: no protocol, no goroutines,
// no copies in memory, and as few system calls as there can be.
const (
	sealedSize  = 256 << 20 // of a copy
	sealedData  = 32 << 10  // of a packet
	sealedHead  = 4 + 1 + 9 // its length, its padding's length, CHANNEL_DATA's header
	sealedPad   = 6         // makes the encrypted part a multiple of 16
	sealedTag   = 16
	sealedWhole = sealedHead + sealedData + sealedPad + sealedTag
	sealedBatch = 8 // packets of one system call
)

// sealed seals and opens packets in place.
type sealed struct {
	aead  cipher.AEAD
	nonce [12]byte
}

func newSealed(tb testing.TB) *sealed {
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		tb.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		tb.Fatal(err)
	}
	return &sealed{aead: aead}
}

func (s *sealed) seal(p []byte, n int) {
	binary.BigEndian.PutUint64(s.nonce[4:], uint64(n))
	s.aead.Seal(p[4:4], s.nonce[:], p[4:len(p)-sealedTag], p[:4])
}

func (s *sealed) open(p []byte, n int) error {
	binary.BigEndian.PutUint64(s.nonce[4:], uint64(n))
	_, err := s.aead.Open(p[4:4], s.nonce[:], p[4:], p[:4])
	return err
}

// contents returns where the data of each of a batch's packets lies.
func contents(batch []byte) (parts [][]byte) {
	for at := sealedHead; at < len(batch); at += sealedWhole {
		parts = append(parts, batch[at:at+sealedData])
	}
	return parts
}

// beside runs cat with one end of a connection on loopback, and returns the other end, which
// blocks.
func beside(tb testing.TB, attach func(cat *exec.Cmd, end *os.File)) (fd int, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	var ends [2]*os.File
	for i, connect := range []func() (net.Conn, error){
		func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }, l.Accept} {
		c, err := connect()
		if err != nil {
			tb.Fatal(err)
		}
		if ends[i], err = c.(*net.TCPConn).File(); err != nil {
			tb.Fatal(err)
		}
		c.Close()
	}
	cat := exec.Command("cat")
	attach(cat, ends[1])
	if err := cat.Start(); err != nil {
		tb.Fatal(err)
	}
	ends[1].Close()
	return int(ends[0].Fd()), func() {
		ends[0].Close()
		if err := cat.Wait(); err != nil {
			tb.Error(err)
		}
	}
}

// BenchmarkSealed reports the processor seconds that such a client takes for each GiB, step by
// step: the socket alone, with the encryption, and with a new file on tmpfs. The peer is cat.
func BenchmarkSealed(b *testing.B) {
	dir, err := os.MkdirTemp("/dev/shm", "usftp-sealed-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	s := newSealed(b)
	stream := make([]byte, sealedSize/sealedData*sealedWhole)
	for n := range sealedSize / sealedData {
		s.seal(stream[n*sealedWhole:(n+1)*sealedWhole], n)
	}
	name, plain := filepath.Join(dir, "sealed"), filepath.Join(dir, "plain")
	for file, data := range map[string][]byte{name: stream, plain: make([]byte, sealedSize)} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for _, test := range []struct {
		name           string
		get, aes, file bool
	}{
		{"get/socket", true, false, false}, {"get/aes", true, true, false},
		{"get/file", true, true, true},
		{"put/socket", false, false, false}, {"put/aes", false, true, false},
		{"put/file", false, true, true},
	} {
		b.Run(test.name, func(b *testing.B) {
			batch := make([]byte, sealedBatch*sealedWhole)
			parts := contents(batch)
			b.SetBytes(sealedSize)
			before := machine.ProcessorTime()
			for b.Loop() {
				if test.get {
					getSealed(b, s, name, filepath.Join(dir, "copy"), batch, parts, test.aes,
						test.file)
				} else {
					putSealed(b, s, plain, batch, parts, test.aes, test.file)
				}
			}
			used := (machine.ProcessorTime() - before).Seconds()
			b.ReportMetric(used/float64(b.N)*(1<<30)/sealedSize, "cpu-s/GiB")
		})
	}
}

func getSealed(b *testing.B, s *sealed, source, target string, batch []byte, parts [][]byte,
	aes, file bool) {
	fd, stop := beside(b, func(cat *exec.Cmd, end *os.File) {
		cat.Args, cat.Stdout = append(cat.Args, source), end
	})
	defer stop()
	var out *os.File
	if file {
		os.Remove(target)
		var err error
		if out, err = os.Create(target); err != nil {
			b.Fatal(err)
		}
		defer out.Close()
	}
	for n := 0; n < sealedSize/sealedData; n += sealedBatch {
		for have := 0; have < len(batch); {
			got, err := unix.Read(fd, batch[have:])
			if err != nil || got == 0 {
				b.Fatalf("%d bytes came, and then: %v", got, err)
			}
			have += got
		}
		for i := 0; aes && i < sealedBatch; i++ {
			if err := s.open(batch[i*sealedWhole:(i+1)*sealedWhole], n+i); err != nil {
				b.Fatal(err)
			}
		}
		if file {
			n, err := unix.Writev(int(out.Fd()), parts)
			if err != nil || n != sealedBatch*sealedData {
				b.Fatalf("%d bytes written: %v", n, err)
			}
		}
	}
}

func putSealed(b *testing.B, s *sealed, source string, batch []byte, parts [][]byte,
	aes, file bool) {
	fd, stop := beside(b, func(cat *exec.Cmd, end *os.File) { cat.Stdin = end })
	defer stop()
	in, err := os.Open(source)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	for n := 0; n < sealedSize/sealedData; n += sealedBatch {
		if file {
			n, err := unix.Readv(int(in.Fd()), parts)
			if err != nil || n != sealedBatch*sealedData {
				b.Fatalf("%d bytes read: %v", n, err)
			}
		}
		for i := range sealedBatch {
			if aes {
				s.seal(batch[i*sealedWhole:(i+1)*sealedWhole], n+i)
			}
		}
		for sent := 0; sent < len(batch); {
			m, err := unix.Write(fd, batch[sent:])
			if err != nil {
				b.Fatal(err)
			}
			sent += m
		}
	}
}
