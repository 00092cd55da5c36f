package bench

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/bench/floor"
	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/pipes"
)

var pipeSizes = []struct {
	name string
	size int
}{{"64KiB", 0}, {"1MiB", pipes.LargePipe}}

// BenchmarkFloor is the bare loop, over the settings from which the report takes the best.
func BenchmarkFloor(b *testing.B) {
	path, content := randomFile(b, transferSize)
	for _, pipe := range pipeSizes {
		for _, setting := range floor.Settings() {
			run := func(name string, transfer func(*floor.Client) error) {
				b.Run("op="+name+"/pipe="+pipe.name+"/"+setting.String(), func(b *testing.B) {
					server := startServer(b, pipe.size)
					client, err := floor.New(server.R, server.W)
					if err != nil {
						b.Fatal(err)
					}
					measure(b, transferSize, func() error { return transfer(client) })
				})
			}
			run("WriteTo", func(c *floor.Client) error {
				return c.Download(path,
					int64(len(content)), setting)
			})
			run("ReadFrom", func(c *floor.Client) error {
				return c.Upload(path+".up",
					int64(len(content)), setting)
			})
		}
	}
}

// BenchmarkPipe moves 10 MiB over pipes with each library.
func BenchmarkPipe(b *testing.B) {
	path, content := randomFile(b, transferSize)
	for _, pipe := range pipeSizes {
		for _, lib := range library.All() {
			suffix := "/pipe=" + pipe.name + "/library=" + lib.Name
			b.Run("op=WriteTo"+suffix, func(b *testing.B) {
				benchmarkDown(b, lib, pipe.size, 0,
					path, len(content))
			})
			b.Run("op=ReadFrom"+suffix, func(b *testing.B) {
				benchmarkUp(b, lib, pipe.size, 0,
					content, len(content))
			})
		}
	}
}

// BenchmarkDelay moves 10 MiB with every write of the client delayed.
func BenchmarkDelay(b *testing.B) {
	path, content := randomFile(b, transferSize)
	for _, delay := range []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond,
		150 * time.Millisecond} {
		for _, lib := range library.All() {
			suffix := "/delay=" + delay.String() + "/library=" + lib.Name
			b.Run("op=CopyDown"+suffix, func(b *testing.B) {
				benchmarkDown(b, lib, pipes.LargePipe, delay, path, len(content))
			})
			b.Run("op=CopyUp"+suffix, func(b *testing.B) {
				benchmarkUp(b, lib, pipes.LargePipe, delay, content, len(content))
			})
		}
	}
}

func benchmarkDown(b *testing.B, lib library.Library, pipeSize int, delay time.Duration,
	path string, size int) {
	client := connect(b, lib, pipeSize, delay)
	measure(b, transferSize, func() error { return download(client, path, int64(size)) })
}

func benchmarkUp(b *testing.B, lib library.Library, pipeSize int, delay time.Duration,
	content []byte, piece int) {
	client := connect(b, lib, pipeSize, delay)
	target := filepath.Join(memoryDir(b), "target")
	measure(b, transferSize, func() error {
		return upload(client, target,
			&pieces{content, piece})
	})
	checkFile(b, target, content)
}

// measure times a transfer of size bytes from the second one on.
func measure(b *testing.B, size int64, transfer func() error) {
	b.Helper()
	if err := transfer(); err != nil {
		b.Fatal(err)
	}
	measureCold(b, size, transfer)
}

// measureCold times a transfer from the first one on.
func measureCold(b *testing.B, size int64, transfer func() error) {
	b.Helper()
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := transfer(); err != nil {
			b.Fatal(err)
		}
	}
}
