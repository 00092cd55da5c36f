package usftp_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/usftp/usftp"
)

func BenchmarkWriteTo10MiB(b *testing.B) {
	client := startServer(b)
	name, _ := randomFile(b, "/dev/shm", 10<<20)
	defer os.Remove(name)
	b.SetBytes(10 << 20)
	b.ReportAllocs()
	for b.Loop() {
		f, err := client.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := f.WriteTo(io.Discard); n != 10<<20 || err != nil {
			b.Fatal(n, err)
		}
		f.Close()
	}
}

func BenchmarkReadFrom10MiB(b *testing.B) {
	client := startServer(b)
	data := make([]byte, 10<<20)
	defer os.Remove("/dev/shm/target")
	b.SetBytes(10 << 20)
	b.ReportAllocs()
	for b.Loop() {
		f, err := client.Create("/dev/shm/target")
		if err != nil {
			b.Fatal(err)
		}
		if n, err := f.ReadFrom(bytes.NewReader(data)); n != 10<<20 || err != nil {
			b.Fatal(n, err)
		}
		f.Close()
	}
}

// BenchmarkSmallReads: reading in pieces of 1 KiB should take at most 1.5 times as long as in
// pieces of 1 MiB.
func BenchmarkSmallReads(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			client := startServer(b)
			name, _ := randomFile(b, "/dev/shm", 10<<20)
			defer os.Remove(name)
			b.SetBytes(10 << 20)
			b.ReportAllocs()
			p := make([]byte, size)
			for b.Loop() {
				f := must[*usftp.File](b)(client.Open(name))
				total := 0
				for {
					n, err := f.Read(p)
					total += n
					if err == io.EOF {
						break
					}
					if err != nil { // without a helper, which costs more than a Read
						b.Fatal(err)
					}
				}
				if total != 10<<20 {
					b.Fatal(total)
				}
				f.Close()
			}
		})
	}
}

// BenchmarkSmallWrites: the same for writing, with write-behind.
func BenchmarkSmallWrites(b *testing.B) {
	for _, size := range []int{1 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			client := startServer(b, usftp.WithWriteBehind(16<<20))
			defer os.Remove("/dev/shm/target")
			b.SetBytes(10 << 20)
			b.ReportAllocs()
			p := make([]byte, size)
			for b.Loop() {
				f := must[*usftp.File](b)(client.Create("/dev/shm/target"))
				for range 10 << 20 / size {
					if _, err := f.Write(p); err != nil {
						b.Fatal(err)
					}
				}
				ok(b, f.Close())
			}
		})
	}
}

// BenchmarkReadDir lists 10,000 files of OpenSSH's server.
func BenchmarkReadDir(b *testing.B) {
	client := startServer(b, usftp.WithServerVersion(openSSH))
	dir := b.TempDir()
	for i := range 10_000 {
		ok(b, os.WriteFile(fmt.Sprintf("%s/file number %d", dir, i), nil, 0o600))
	}
	b.ReportAllocs()
	for b.Loop() {
		if files := must[[]*usftp.File](b)(client.ReadDir(dir)); len(files) != 10_000 {
			b.Fatal(len(files))
		}
	}
}
