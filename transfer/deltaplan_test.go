package transfer_test

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestDeltaFindsWhatMoved: what is far from its old place is found too, although copying begins
// before both files are listed.
func TestDeltaFindsWhatMoved(t *testing.T) {
	t.Parallel()
	const size = 12 << 20
	old := noiseOf(11, size)
	for name, c := range map[string]struct {
		fresh []byte
		sent  int // at most, besides what is around each change
	}{
		"halves swapped":    {slices.Concat(old[size/2:], old[:size/2]), 0},
		"most cut off":      {old[3*size/4:], 0},
		"half inserted":     {slices.Concat(noiseOf(12, size/2), old), size / 2},
		"the last in front": {slices.Concat(old[size-200_000:], old), 200_000},
		"the middle is gone": {slices.Concat(old[:size/2], noiseOf(13, size/4), old[3*size/4:]),
			size / 4},
	} {
		for _, direction := range []way{upload, download} {
			t.Run(fmt.Sprintf("%s, %v", name, direction), func(t *testing.T) {
				host, _, far := deltaHost(t, nil)
				source, target, stored := deltaFiles(t, direction, far, c.fresh, old)
				j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
				always(&j)
				result, err := j.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(stored); err != nil || !bytes.Equal(got, c.fresh) {
					t.Errorf("what arrived is not the source: %v", err)
				}
				if sent := len(c.fresh) - int(result.Reused); sent > c.sent+100_000 {
					t.Errorf("%d bytes were sent, want little more than %d", sent, c.sent)
				}
			})
		}
	}
}

// TestDeltaBeginsBeforeTheEnd: the first change is sent while the end of the host's file is still
// being listed, also if there are so many in one place that in all they are not small.
func TestDeltaBeginsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for direction, changes := range both(1, 20) {
		t.Run(fmt.Sprintf("%v, %d changes", direction, changes), func(t *testing.T) {
			moves := wire.TypeWrite
			if direction == download {
				moves = wire.TypeRead
			}
			var counter atomic.Pointer[sftptest.Counter]
			var last [][]byte // list, held back
			host, count, far := deltaHost(t, func(packet []byte) [][]byte {
				var list wire.ChunksReply
				kind, _, body, err := wire.ParseHeader(packet)
				isLast := err == nil && kind == wire.TypeExtendedReply && list.Parse(body) == nil &&
					list.End && list.Len() > 0
				c := counter.Load()
				if moved := c != nil && c.Counts().PacketsSent[moves] > 0; isLast && !moved {
					last = append(last, packet)
					return nil
				} else if !moved {
					return [][]byte{packet}
				}
				packets := append(last, packet)
				last = nil
				return packets
			})
			counter.Store(count)
			old := noiseOf(21, 12<<20)
			fresh := bytes.Clone(old)
			for i := range changes {
				copy(fresh[1<<20+i*80_000:], noiseOf(int64(22+i), 20_000))
			}
			source, target, stored := deltaFiles(t, direction, far, fresh, old)
			j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
			always(&j)
			result, err := j.Run(t.Context())
			if err != nil || len(fresh)-int(result.Reused) > 150_000+changes*30_000 {
				t.Errorf("%+v, %v", result, err)
			}
			if got, err := os.ReadFile(stored); err != nil || !bytes.Equal(got, fresh) {
				t.Errorf("what arrived is not the source: %v", err)
			}
		})
	}
}

// both yields each direction with each value.
func both[T any](values ...T) iter.Seq2[way, T] {
	return func(yield func(way, T) bool) {
		for _, direction := range []way{upload, download} {
			for _, v := range values {
				if !yield(direction, v) {
					return
				}
			}
		}
	}
}
