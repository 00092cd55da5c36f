//go:build linux || darwin

package sftpfs

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
)

// Links stay below the root of the mount, whatever a host makes of the names on the way.
func TestContained(t *testing.T) {
	for _, test := range []struct {
		target string
		depth  int
		want   bool
	}{
		{"file", 0, true},
		{"./a//b/.", 0, true},
		{"../file", 1, true},
		{"../bin/tool", 1, true},
		{"./.././../x", 2, true},
		{"..", 1, true},
		{"...", 0, true},
		{"..a/b", 0, true},
		{"/etc/passwd", 5, false},
		{"//", 5, false},
		{"..", 0, false},
		{"../..", 1, false},
		{"./../../x", 1, false},
		{"a/..", 5, false},
		{"a/../../b", 5, false}, // a may be a link
		{"../a/../b", 5, false},
	} {
		if got := contained(test.target, test.depth); got != test.want {
			t.Errorf("%q at depth %d: %v", test.target, test.depth, got)
		}
	}
}

// A link with several names counts with the one that is nearest to the root.
func TestDepth(t *testing.T) {
	tree := newTree("/far")
	dir, file := attrs{mode: 0o040755}, attrs{mode: 0o120777}
	a := tree.learn(tree.root, "a", &dir)
	b := tree.learn(a, "b", &dir)
	link := tree.learn(b, "link", &file)
	if got := tree.depth(link); got != 2 {
		t.Errorf("depth %d", got)
	}
	tree.addPlace(link, tree.root, "other")
	if got := tree.depth(link); got != 0 {
		t.Errorf("with a name in the root: depth %d", got)
	}
}

// Sizes that no kernel takes become the largest that it does.
func TestAbsurdSize(t *testing.T) {
	for _, size := range []uint64{math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64} {
		if a := attrsOf(&usftp.FileStat{Size: size}); a.size != math.MaxInt64 {
			t.Errorf("%d became %d", size, a.size)
		}
	}
}

// lister lists directories that each hold as many directories, without end, and counts.
func lister(lists map[string]int, width int) func(context.Context, string) (*listing, error) {
	return func(_ context.Context, path string) (*listing, error) {
		lists[path]++
		l := &listing{asked: time.Now()}
		for i := range width {
			l.entries = append(l.entries,
				fileEntry{name: fmt.Sprint(i), attrs: attrs{mode: 0o040755}})
		}
		return l, nil
	}
}

// Directories are listed ahead of a program that goes down into a tree, and not of one that reads a
// single directory. Lists that nobody reads are bounded, though the tree has no end.
func TestPrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := make(map[string]int)
		ctx := t.Context()
		s := newPrefetcher(ctx, time.Second, lister(lists, 10))
		below := func(path string) []string {
			l, _ := lister(make(map[string]int), 10)(ctx, path)
			return directoriesIn(path, l.entries)
		}
		s.read("/", below("/"))
		synctest.Wait()
		if len(lists) != 0 {
			t.Fatalf("listed ahead of a program that has read one directory: %v", lists)
		}
		s.mu.Lock()
		s.running = maxListings - 1 // one at a time
		s.mu.Unlock()
		s.read("/0", below("/0"))
		synctest.Wait()
		if len(lists) != firstPrefetched || lists["/0/0"] != 1 {
			t.Fatalf("%d lists ahead: %v", len(lists), lists)
		}
		if l := s.take(ctx, "/0/0"); l == nil || len(l.entries) != 10 {
			t.Errorf("the list that is here: %v", l)
		}
		if s.take(ctx, "/0/0") != nil {
			t.Error("a list is used twice")
		}
		path := "/0"
		for range 100 { // down without end
			path += "/0"
			s.read(path, below(path))
			synctest.Wait()
		}
		s.mu.Lock()
		if len(s.lists) > maxPrefetched || s.names > maxPrefetchedNames+maxNamesInList ||
			len(s.next) > maxExpected ||
			len(s.below) > maxExpected+2*maxPrefetched {
			t.Errorf("%d lists of %d names, %d and %d expected", len(s.lists), s.names, len(s.next),
				len(s.below))
		}
		s.mu.Unlock()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.lists)+len(s.next)+s.names+s.window != 0 {
			t.Error("something is kept of what nobody reads")
		}
	})
}

// A list that was made ahead is dropped when a name in the directory changes here, and when it is
// older than names are believed.
func TestPrefetchForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, spoil := range map[string]func(*prefetcher){
			"a change":     func(s *prefetcher) { s.changed("/a/x") },
			"a rename":     func(s *prefetcher) { s.renamed() },
			"another time": func(*prefetcher) { time.Sleep(time.Second) },
		} {
			s := newPrefetcher(t.Context(), time.Second, func(context.Context, string) (*listing,
				error) {
				return &listing{asked: time.Now()}, nil
			})
			s.read("/", []string{"/a"})
			s.read("/a", []string{"/a/x"})
			synctest.Wait()
			if !s.has("/a/x") {
				t.Fatalf("%s: not listed ahead", name)
			}
			spoil(s)
			if s.take(t.Context(), "/a/x") != nil {
				t.Errorf("used after %s", name)
			}
		}
		time.Sleep(5 * time.Second) // timers
	})
}
