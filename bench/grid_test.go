package bench

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/pipes"
)

// gridOps are the four ways of a File to move 10 MiB. size is that of one Read or Write, and for
// ReadFrom that of the pieces in which the source comes; WriteTo's sink takes what it is given, so
// there it changes nothing.
var gridOps = []struct {
	name string
	down bool
	move func(f library.File, content, buffer []byte) (int64, error)
}{
	{"Read", true, func(f library.File, content, buffer []byte) (int64, error) {
		// Each byte is counted once: the offset moves by what was read and by nothing else.
		var n int64
		for {
			read, err := f.Read(buffer)
			n += int64(read)
			if err == io.EOF {
				return n, nil
			}
			if err != nil {
				return n, err
			}
		}
	}},
	{"WriteTo", true, func(f library.File, _, _ []byte) (int64, error) {
		return f.WriteTo(&discard{})
	}},
	{"Write", false, func(f library.File, content, buffer []byte) (int64, error) {
		var n int64
		for n < int64(len(content)) {
			written, err := f.Write(content[n:min(n+int64(len(buffer)), int64(len(content)))])
			n += int64(written)
			if err != nil {
				return n, err
			}
		}
		return n, nil
	}},
	{"ReadFrom", false, func(f library.File, content, buffer []byte) (int64, error) {
		return f.ReadFrom(&pieces{content, len(buffer)})
	}},
}

type gridCell struct {
	name  string
	size  int
	delay time.Duration
}

// gridCells are the sizes, undelayed.
func gridCells() []gridCell {
	var cells []gridCell
	for _, size := range []int{1 << 10, 16 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20,
		4 << 20} {
		cells = append(cells, gridCell{fmt.Sprintf("size=%dKiB/delay=0s", size>>10), size, 0})
	}
	return cells
}

// delayedCells are the largest size at each delay.
func delayedCells() []gridCell {
	var cells []gridCell
	for _, delay := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond,
		150 * time.Millisecond} {
		cells = append(cells, gridCell{fmt.Sprintf("size=%dKiB/delay=%s", 4<<10, delay), 4 << 20,
			delay})
	}
	return cells
}

// BenchmarkGrid moves 10 MiB by every operation and size with every library. One operation is one
// whole file, its open and close included.
func BenchmarkGrid(b *testing.B) { benchmarkGrid(b, gridCells()) }

// BenchmarkGridDelay does the same with every write of the client delayed.
func BenchmarkGridDelay(b *testing.B) { benchmarkGrid(b, delayedCells()) }

func benchmarkGrid(b *testing.B, cells []gridCell) {
	path, content := randomFile(b, transferSize)
	for _, op := range gridOps {
		for _, cell := range cells {
			for _, lib := range library.All() {
				b.Run("op="+op.name+"/"+cell.name+"/library="+lib.Name, func(b *testing.B) {
					measure := measure
					if cell.delay > 0 && lib.Name == library.DefaultName {
						measure = measureCold // it keeps nothing to be warm, and takes up to 49 s
					}
					client := connect(b, lib, pipes.LargePipe, cell.delay)
					buffer := make([]byte, cell.size)
					target := filepath.Join(memoryDir(b), "target")
					measure(b, transferSize, func() error {
						open, name := client.Open, path
						if !op.down {
							open, name = client.Create, target
						}
						f, err := open(name)
						if err != nil {
							return err
						}
						n, err := op.move(f, content, buffer)
						if err == nil && n != transferSize {
							err = fmt.Errorf("%s moved %d bytes of %d", op.name, n, transferSize)
						}
						return errors.Join(err, f.Close())
					})
					if !op.down {
						checkFile(b, target, content)
					}
				})
			}
		}
	}
}
