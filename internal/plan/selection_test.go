package plan

import (
	"errors"
	"io/fs"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/localfs"
)

// TestExcludes: what a run keeps for itself takes no part, nor does what rules leave out.
func TestExcludes(t *testing.T) {
	rule, err := filter.NewRule("*.o", false)
	if err != nil {
		t.Fatal(err)
	}
	ignore, err := filter.NewIgnore(nil, ".", []byte("log/"))
	if err != nil {
		t.Fatal(err)
	}
	plain := &Selection{Lock: "lock"}
	ruled := &Selection{Rules: filter.Rules{rule}, Backups: "old/files"}
	for _, test := range []struct {
		s         *Selection
		dir, name string
		isDir     bool
		ignore    *filter.Ignore
		want      bool
	}{
		{plain, ".", "lock", false, nil, true},
		{plain, "dir", "lock", false, nil, false},
		{plain, ".", "a.o", false, nil, false},
		{plain, ".", "log", true, ignore, true},
		{plain, ".", "log", false, ignore, false},
		{ruled, ".", "a.o", false, nil, true},
		{ruled, "old", "files", true, nil, true},
		{ruled, ".", "files", true, nil, false},
		{ruled, ".", "", false, nil, false},
	} {
		got := test.s.Excludes(test.dir, test.name, test.isDir, test.ignore)
		if got != test.want {
			t.Errorf("%s/%s is excluded: %v", test.dir, test.name, got)
		}
	}
}

// TestSelectionOf: a copy leaves out what is too young, and what others are writing.
func TestSelectionOf(t *testing.T) {
	s := &Selection{Began: at, MinAge: time.Minute}
	temporary := localfs.NewTempToken().Name("file")
	for name, test := range map[string]struct {
		name string
		age  time.Duration
		mode fs.FileMode
		want Action
	}{
		"old":                     {"file", time.Minute, 0, Action{Do: Copy}},
		"young":                   {"file", time.Second, 0, Action{Do: Skip, Why: Young}},
		"a young link":            {"file", time.Second, fs.ModeSymlink, Action{Do: Copy}},
		"another copy's":          {temporary, 0, 0, Action{Do: Skip, Why: UnderWay}},
		"another copy's, younger": {temporary, time.Minute, 0, Action{Do: Copy}},
	} {
		f := endpoint.Info{Mode: test.mode, HasTimes: true, Mtime: at.Add(-test.age)}
		if got := s.Of(test.name, &f); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// TestCheck decides about files with and without a hash, and about names without a file.
func TestCheck(t *testing.T) {
	for _, test := range []struct{ got, want Action }{
		{OfListed(true, false), Action{Do: Compare}},
		{OfListed(true, true), Action{Do: Compare}},
		{OfListed(false, false), Action{Do: Skip, Why: Unlisted}},
		{OfListed(false, true), Action{Do: Fail, Why: Unlisted}},
		{OfSought(&endpoint.Info{}, nil), Action{Do: Compare}},
		{OfSought(&endpoint.Info{Mode: fs.ModeDir}, nil), Action{Do: Fail, Why: NoFile}},
		{OfSought(&endpoint.Info{}, fs.ErrNotExist), Action{Do: Fail, Why: Missing}},
		{OfSought(&endpoint.Info{}, syscall.ENOTDIR), Action{Do: Fail, Why: Missing}},
		{OfSought(&endpoint.Info{}, errors.New("lost")), Action{Do: Fail}},
	} {
		if test.got != test.want {
			t.Errorf("%+v, want %+v", test.got, test.want)
		}
	}
}

// A host that sends one name, or names of one form, without end makes no work that grows with
// their number; and of names that differ none is taken for another's.
func TestNames(t *testing.T) {
	var n Names
	for i := range 1000 {
		if others := n.Add("name"); i > 0 && len(others) != 1 {
			t.Fatalf("the same name is there %d times", len(others))
		}
	}
	for i := range 1 << 10 {
		name := []byte("abcdefghij")
		for bit := range name {
			if i>>bit&1 == 1 {
				name[bit] -= 'a' - 'A'
			}
		}
		if others := n.Add(string(name)); (len(others) > 0) != (i > 0) || len(others) > 2*mostTwins {
			t.Fatalf("spelling %d: %d others", i, len(others))
		}
	}
	for i := range 2 * mostNamesKept {
		if others := n.Add("f" + strconv.Itoa(i)); len(others) > 0 {
			t.Fatalf("f%d is taken for %q", i, others)
		}
	}
}

// TestAreOne asks only what it has to know.
func TestAreOne(t *testing.T) {
	for _, test := range []struct {
		a, b           string
		cases, letters bool // what the target takes for one
		bytes          bool
		want           bool
		asked          int
	}{
		{"photo", "Photo", true, false, false, true, 1},
		{"photo", "Photo", false, true, false, false, 1},
		{"k\u00e4se", "ka\u0308se", false, true, false, true, 1},
		{"k\u00e4se", "ka\u0308se", true, false, false, false, 1},
		{"K\u00c4SE", "ka\u0308se", true, true, false, true, 2},
		{"K\u00c4SE", "ka\u0308se", true, false, false, false, 2},
		{"K\u00c4SE", "ka\u0308se", false, true, false, false, 1},
		{"forgotten", "", false, false, false, false, 2},
		{"forgotten", "", false, true, false, true, 2},
		{"k\xe4se", "k\xf6se", false, false, true, true, 1},
		{"k\xe4se", "k\xf6se", true, true, false, false, 1},
		{"k\xe4se", "k\ufffdse", false, false, true, true, 1},
		{"k\xe4se", "K\xf6se", true, false, true, true, 2},
		{"k\xe4se", "K\xe4se", true, false, false, true, 2},
		{"forgotten\xe4", "", false, false, true, true, 1},
		{"forgotten\xe4", "", false, false, false, false, 3},
	} {
		asked := 0
		ask := func(is bool) func() (bool, error) {
			return func() (bool, error) { asked++; return is, nil }
		}
		got, err := AreOne(test.a, test.b, ask(test.cases), ask(test.letters),
			ask(test.bytes))
		if got != test.want || err != nil || asked != test.asked {
			t.Errorf("%q and %q are one: %v, %v, asked %d times", test.a, test.b, got, err, asked)
		}
	}
}
