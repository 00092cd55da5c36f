package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// TestUpdate: with Update only what is missing or older at the target is copied, as by cp -u.
func TestUpdate(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		base := time.Date(2020, 2, 2, 2, 2, 2, 0, time.UTC)
		ages := map[string]struct {
			target time.Duration // how much later it is there
			copied bool
		}{"missing": {0, true}, "older": {-time.Hour, true}, "newer": {time.Hour, false},
			"same": {0, false}, "second": {-time.Second / 2, direction == local}}
		for _, tree := range []bool{true, false} {
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			write := func(name, text string, when time.Time) {
				t.Helper()
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
					os.WriteFile(name, []byte(text), 0o644), os.Chtimes(name, when, when)); err != nil {
					t.Fatal(err)
				}
			}
			for name, age := range ages {
				when := base.Add(time.Second / 2) // hosts do not tell the half
				write(filepath.Join(src, name), "fresh", when)
				if name != "missing" {
					write(filepath.Join(dst, name), "what there was", when.Add(age.target))
				}
			}
			var o transfer.TreeOptions
			o.Update, o.NoTargetDirectory = true, true
			kept, copied := 0, 0
			o.Events = func(e transfer.Event) {
				switch e.Kind {
				case transfer.Kept:
					kept++
				case transfer.Done:
					copied++
				}
			}
			if tree {
				to, from := direction.endpoints(far, far, src, dst, nil, nil)
				s, err := transfer.CopyTree(t.Context(), to, from, o)
				if err != nil || int(s.Files) != copied || int(s.Kept) != kept {
					t.Errorf("%v, %+v", err, s.Totals)
				}
			} else {
				for name := range ages {
					to, from := direction.endpoints(far, far, filepath.Join(src, name),
						filepath.Join(dst, name), nil, nil)
					if _, err := transfer.Copy(t.Context(), to, from, o.Options); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			want := 0
			for name, age := range ages {
				text, err := os.ReadFile(filepath.Join(dst, name))
				if (string(text) == "fresh") != age.copied || err != nil {
					t.Errorf("tree %v, %s: %q, %v", tree, name, text, err)
				}
				if age.copied {
					want++
				}
			}
			if copied != want || kept != len(ages)-want {
				t.Errorf("tree %v: %d files were copied and %d kept", tree, copied, kept)
			}
		}
	})
}

// TestUpdateHashes: what Update keeps is hashed where it is, and compared with a list: it need not
// be what the source is.
func TestUpdateHashes(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for _, size := range []int{0, 5, 1 << 20} {
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			source, old := random(size+1), random(size)
			later := time.Now().Add(time.Hour)
			if err := errors.Join(os.Mkdir(src, 0o755), os.Mkdir(dst, 0o755),
				os.WriteFile(filepath.Join(src, "file"), source, 0o644),
				os.WriteFile(filepath.Join(dst, "file"), old, 0o644),
				os.Chtimes(filepath.Join(dst, "file"), later, later)); err != nil {
				t.Fatal(err)
			}
			for _, tree := range []bool{true, false} {
				update := func(o transfer.TreeOptions) (kept []transfer.Event, err error) {
					o.Update, o.NoTargetDirectory = true, true
					o.Events = func(e transfer.Event) {
						if e.Kind == transfer.Kept {
							kept = append(kept, e)
						}
					}
					if tree {
						to, from := direction.endpoints(far, far, src, dst, nil, nil)
						_, err = transfer.CopyTree(t.Context(), to, from, o)
						return kept, err
					}
					to, from := direction.endpoints(far, far, filepath.Join(src, "file"),
						filepath.Join(dst, "file"), nil, nil)
					r, err := transfer.Copy(t.Context(), to, from, o.Options)
					if r.Bytes != 0 || r.Verified != "" {
						t.Errorf("%d bytes: %+v", size, r)
					}
					return kept, err
				}
				var o transfer.TreeOptions
				o.Hash = checksum.SHA256
				want := hashOf(checksum.SHA256, old)
				kept, err := update(o)
				if err != nil || len(kept) != 1 || !kept[0].Hash.Equal(want) || kept[0].Name != "file" {
					t.Errorf("%d bytes, tree %v: %+v, %v", size, tree, kept, err)
				}
				for _, listed := range []checksum.Hash{want, hashOf(checksum.SHA256, source)} {
					name := filepath.Join(dir, "list")
					text := fmt.Sprintf("%x  file\n", listed.Sum)
					if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
					if o.List, err = checksum.Open(name, checksum.SHA256); err != nil {
						t.Fatal(err)
					}
					kept, err := update(o)
					if matches := listed.Equal(want); matches != (err == nil) || matches != (len(kept) == 1) ||
						!matches && !errors.Is(err, checksum.ErrMismatch) {
						t.Errorf("%d bytes, tree %v, listed as it is %v: %v, %+v", size, tree, matches, err, kept)
					}
					for name, err := range o.List.Missing() {
						t.Errorf("%s is missing, %v", name, err)
					}
					o.List.Close()
				}
			}
			if now, err := os.ReadFile(filepath.Join(dst, "file")); !bytes.Equal(now, old) || err != nil {
				t.Errorf("%d bytes: what there was has changed, %v", size, err)
			}
		}
	})
}

// TestUpdateOfTimesAhead: a host shows a time from 2096 on as an earlier one, and has it all the same.
func TestUpdateOfTimesAhead(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, direction way, far pool.Host) {
		for _, year := range []int{1904, 2100, 2150} {
			when := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
			dir := t.TempDir()
			src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
			if err := errors.Join(os.Mkdir(src, 0o755),
				os.WriteFile(filepath.Join(src, "file"), []byte("text"), 0o644),
				os.Chtimes(filepath.Join(src, "file"), when, when)); err != nil {
				t.Fatal(err)
			}
			var o transfer.TreeOptions
			o.Update, o.Preserve, o.NoTargetDirectory = true, true, true
			to, from := direction.endpoints(far, far, src, dst, nil, nil)
			first, err := transfer.CopyTree(t.Context(), to, from, o)
			if err != nil || first.Files != 1 {
				t.Fatalf("%d: %+v, %v", year, first.Totals, err)
			}
			to, from = direction.endpoints(far, far, src, dst, nil, nil)
			if s, err := transfer.CopyTree(t.Context(), to, from, o); err != nil || s.Files != 0 ||
				s.Kept != 1 {
				t.Errorf("%d again: %+v, %v", year, s.Totals, err)
			}
		}
	})
}
