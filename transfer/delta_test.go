package transfer_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/usftp/usftp/transfer"
)

// edits change a file in ways that files change.
var edits = map[string]func(r *rand.Rand, data []byte) []byte{
	"nothing": func(_ *rand.Rand, data []byte) []byte { return data },
	"overwrite": func(r *rand.Rand, data []byte) []byte {
		for range 20 {
			at := r.Intn(len(data))
			r.Read(data[at:min(len(data), at+r.Intn(10_000))])
		}
		return data
	},
	"insert": func(r *rand.Rand, data []byte) []byte {
		for range 5 {
			at := r.Intn(len(data))
			data = slices.Insert(data, at, random(1+r.Intn(30_000))...)
		}
		return data
	},
	"insert in front": func(r *rand.Rand, data []byte) []byte {
		return append(random(100_001), data...)
	},
	"delete": func(r *rand.Rand, data []byte) []byte {
		for range 5 {
			at := r.Intn(len(data) - 20_000)
			data = slices.Delete(data, at, at+1+r.Intn(3_000))
		}
		return data
	},
	"truncate": func(r *rand.Rand, data []byte) []byte { return data[:len(data)-1-r.Intn(len(data)/2)] },
	"append":   func(r *rand.Rand, data []byte) []byte { return append(data, random(1+r.Intn(1<<20))...) },
	"swap halves": func(_ *rand.Rand, data []byte) []byte {
		return append(bytes.Clone(data[len(data)/2:]), data[:len(data)/2]...)
	},
	"zeros": func(r *rand.Rand, data []byte) []byte {
		clear(data[len(data)/4 : len(data)/2])
		return append(data, make([]byte, 300_000)...)
	},
	"repeat": func(r *rand.Rand, data []byte) []byte { return append(data, data...) },
	"rewrite": func(r *rand.Rand, data []byte) []byte {
		r.Read(data)
		return data
	},
}

// ends are the two files of a copy: the new one at one end, the old one at the other.
func deltaFiles(t *testing.T, direction way, far string, fresh, old []byte) (source, target,
	stored string) {
	t.Helper()
	near := t.TempDir()
	newPath, oldPath := filepath.Join(near, "new"), filepath.Join(far, "old")
	source, target = newPath, "/old"
	if direction == download {
		newPath, oldPath = filepath.Join(far, "new"), filepath.Join(near, "old")
		source, target = "/new", oldPath
	}
	for name, data := range map[string][]byte{newPath: fresh, oldPath: old} {
		if err := os.WriteFile(name, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return source, target, oldPath
}

func always(j *copyJob) { j.Options.Delta = transfer.DeltaAlways }

func TestDeltaIsTheSameAsACopy(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	host, far := ourHost(t)
	for _, direction := range []way{upload, download} {
		for name, edit := range edits {
			for _, size := range []int{60_001, 170_000, 3<<20 + 17} {
				t.Run(fmt.Sprintf("%v/%s/%d", direction, name, size), func(t *testing.T) {
					r := rand.New(rand.NewSource(seed))
					old := make([]byte, size)
					r.Read(old)
					fresh := edit(r, bytes.Clone(old))
					source, target, stored := deltaFiles(t, direction, far, fresh, old)
					j := copyJob{Host: host, Direction: direction, Source: source, Target: target}
					always(&j)
					j.Options.Sparse = r.Intn(2) == 0
					result, err := j.Run(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					got, err := os.ReadFile(stored)
					if err != nil || !bytes.Equal(got, fresh) {
						t.Fatalf("%d bytes arrived, which are not the source's %d: %v", len(got),
							len(fresh), err)
					}
					if result.Bytes != int64(len(fresh)) || result.Verified != transfer.VerifiedByHash {
						t.Errorf("%+v", result)
					}
					if name == "nothing" && result.Reused != int64(len(fresh)) ||
						name == "rewrite" && result.Reused != 0 {
						t.Errorf("%d bytes of %d came from the old file", result.Reused, len(fresh))
					}
					nothingIn(t, "litter", far, "old", "new")
				})
			}
		}
	}
}
