package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/transfer"
)

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	when := time.Date(2020, 2, 3, 4, 5, 6, 700, time.UTC)
	for _, size := range []int{0, 1, 10e3, 9<<20 + 1} {
		data := random(size)
		if err := os.WriteFile(source, data, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(source, when, when); err != nil {
			t.Fatal(err)
		}
		for _, options := range []transfer.Options{{},
			{Attributes: transfer.Attributes{Preserve: true}},
			{Placement: transfer.PlaceDirect}, {Placement: transfer.PlaceAtomic, Sync: true},
			{Verify: true},
			{Contents: transfer.Contents{Sparse: true}}, {RateLimit: 1 << 32}} {
			var last transfer.Event
			options.Events = func(e transfer.Event) { last = e }
			j := copyJob{Direction: local, Source: source, Target: target,
				Options: options}
			result, err := j.Run(context.Background())
			if err != nil || result.Bytes != int64(size) ||
				result.InPlace != (options.Placement == transfer.PlaceDirect) {
				t.Fatalf("%d bytes, %+v: %+v, %v", size, options, result, err)
			}
			if options.Verify && result.Verified != transfer.VerifiedByReading {
				t.Errorf("verified %q", result.Verified)
			}
			if last.Kind != transfer.Done || last.SourceHost != "" ||
				last.Bytes != int64(size) || last.TargetHost != "" {
				t.Errorf("the last event is %+v", last)
			}
			got, err := os.ReadFile(target)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, %+v: the copy differs: %v", size, options, err)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Fatal(err)
			}
			if options.Preserve && !info.ModTime().Equal(when) {
				t.Errorf("the copy's time is %v", info.ModTime())
			}
		}
		os.Remove(target)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}

// TestLocalInterrupted: an interrupted copy leaves the old target, and nothing else.
func TestLocalInterrupted(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	if err := errors.Join(os.WriteFile(source, random(4<<20), 0o600),
		os.WriteFile(target, []byte("old"), 0o600)); err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	j := copyJob{Direction: local, Source: source, Target: target,
		Options: transfer.Options{
			RateLimit: 1 << 20,
			Events: func(e transfer.Event) {
				if e.Kind == transfer.Progress && e.Bytes > 0 {
					cancel(stop)
				}
			}}}
	j.Options.SetProgressEvery(time.Millisecond)
	result, err := j.Run(ctx)
	if !errors.Is(err, stop) || result.LeftBehind != "" {
		t.Errorf("%+v, %v", result, err)
	}
	entries, _ := os.ReadDir(dir)
	if data, err := os.ReadFile(target); err != nil || string(data) != "old" || len(entries) != 2 {
		t.Errorf("the target is %q, %v; in the directory there are %v", data, err, entries)
	}
}

// TestLocalSourceChanges: a source written to while it is copied fails the copy.
func TestLocalSourceChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "target")
	if err := os.WriteFile(source, random(4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	j := copyJob{Direction: local, Source: source, Target: target,
		Options: transfer.Options{
			RateLimit: 16 << 20,
			Events: func(e transfer.Event) {
				if e.Kind == transfer.Progress && e.Bytes > 0 {
					os.Truncate(source, 5<<20)
				}
			}}}
	j.Options.SetProgressEvery(time.Millisecond)
	_, err := j.Run(context.Background())
	if _, statErr := os.Lstat(target); !errors.Is(err, transfer.ErrSourceChanged) ||
		!os.IsNotExist(statErr) {
		t.Errorf("%v; the target: %v", err, statErr)
	}
}

func TestLocalTree(t *testing.T) {
	b := &bench{t: t, dir: tempDir(t)}
	source := b.sample("source")
	target := filepath.Join(b.dir, "target")
	tree := treeJob{Direction: local, Source: source, Target: target,
		Options: transfer.Options{Attributes: transfer.Attributes{Preserve: true}, Verify: true}}
	summary, err := tree.Run(context.Background())
	if err != nil || summary.Target != target || summary.Files == 0 || summary.Failed != 0 ||
		!summary.Complete {
		t.Fatalf("%+v, %v", summary, err)
	}
	sameTrees(t, source, target)
	tree.Source, tree.Options = source+string(filepath.Separator)+".",
		transfer.Options{Resume: true}
	again, err := tree.Run(context.Background())
	if err != nil || again.Kept != summary.Files || again.Files != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
}
