package plan

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
)

// TestRefused: much is deleted only if somebody has said how much, and nothing at all for an empty
// source.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		met, most   int64
		found, held int
		want        string // "" if it is allowed
	}{
		{met: 1, found: 10, held: 10},
		{met: 1, found: 11, held: 21, want: "more than half"},
		{met: 1, found: 11, held: 22},
		{met: 0, found: 1, held: 100, want: "the source here is empty"},
		{met: 0, most: 100, found: 1, held: 100, want: "the source here is empty"},
		{met: 1, most: 11, found: 11, held: 11},
		{met: 1, most: 10, found: 11, held: 1000, want: "more than the 10"},
	} {
		var x Extras
		defer x.Close()
		x.Hold(test.held)
		x.AddFiles(Lost{".", ".", make([]string, test.found)})
		why := x.Refused("here", test.met, test.most)
		if !strings.Contains(why, test.want) || (why == "") != (test.want == "") {
			t.Errorf("%+v: %q", test, why)
		}
	}
}

// TestExtras: what was recorded is given back in the order in which it can be deleted.
func TestExtras(t *testing.T) {
	var x Extras
	defer x.Close()
	if !x.IsEmpty() {
		t.Error("there is something at the beginning")
	}
	x.AddDir("a", ".", 1)
	x.AddDir("a/b/c", ".", 3)
	x.AddDir("a/b", ".", 2)
	x.AddDir("d", ".", 1)
	var dirs []string
	for depth := range x.Dirs() {
		for lost, err := range depth {
			if err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, lost.Dir+" "+lost.Names[0]+" "+lost.Present)
		}
	}
	if want := []string{"a/b c .", "a b .", ". a .", ". d ."}; !slices.Equal(dirs, want) {
		t.Errorf("directories: %q, want %q", dirs, want)
	}
	x.AddFiles(Lost{"a/b", "a", []string{"1", "2"}})
	x.AddFiles(Lost{"e", "e", nil})
	n := 0
	for lost, err := range x.Files() {
		if n++; err != nil || !reflect.DeepEqual(lost, Lost{"a/b", "a", []string{"1", "2"}}) {
			t.Errorf("%+v, %v", lost, err)
		}
	}
	if n != 1 || x.IsEmpty() {
		t.Errorf("there are %d records", n)
	}
	if !x.Keep("a", "why") || x.Keep("a", "else") || x.Kept("a") != "why" || x.Kept("a/b") != "" {
		t.Error("what stays is not known")
	}
}

// TestFacts: a directory gets back what was recorded of it.
func TestFacts(t *testing.T) {
	var x Extras
	defer x.Close()
	info := endpoint.Info{Mode: fs.ModeDir | fs.ModeSticky | 0o751, HasMode: true, HasTimes: true,
		Mtime: time.Unix(-1, 5), Atime: time.Unix(1<<34, 0), // after 2262
		Owner: localfs.Owner{UID: 3, GID: 4, Known: true}}
	x.Touch("a b", &info)
	x.Open("c\nd", fs.ModeDir|0o500)
	n := 0
	for l, err := range x.Touched() {
		if n++; err != nil || l.Dir != "a b" || !reflect.DeepEqual(l.Info, info) {
			t.Errorf("%+v, %v", l, err)
		}
	}
	for l, err := range x.Opened() {
		if n++; err != nil || l.Dir != "c\nd" || l.Info.Mode != fs.ModeDir|0o500 {
			t.Errorf("%+v, %v", l, err)
		}
	}
	if n != 2 {
		t.Errorf("%d directories were recorded", n)
	}
}
