package plan

import (
	"maps"
	"testing"
)

// TestList: of a list it is known in each directory what is named there, and in the end what was
// not found.
func TestList(t *testing.T) {
	l := NewList([]string{"a/b/file", "./dir/", "/plain", "up/../../x", "gone/too"}, false)
	var found []*List
	takes := func(dir, name string, isDir, want bool) {
		t.Helper()
		at, all := l.In(dir)
		if at == nil || all {
			t.Fatalf("%s: %v, %v", dir, at, all)
		}
		named, ok := at.Takes(name, isDir)
		if ok != want {
			t.Errorf("%s/%s is not taken as it should", dir, name)
		}
		if ok && named != nil {
			found = append(found, named)
		}
	}
	takes(".", "a", true, true)
	takes("a", "b", true, true)
	takes("a", "c", true, false)
	takes("a/b", "file", false, true)
	takes("a/b", "other", false, false)
	takes(".", "dir", true, true)
	takes("dir", "anything", false, true)
	takes(".", "plain", true, true)
	takes("plain", "inside", false, false)
	takes(".", "x", false, true)
	takes(".", "up", true, false)
	takes(".", "gone", false, false) // a file is not the directory that is meant
	if at, _ := l.In("elsewhere/below"); at != nil {
		t.Error("something is named elsewhere")
	}
	missing := make(map[string]bool)
	l.Read(".")
	tell := func(rel string, excused bool) { missing[rel] = excused }
	l.Missing(tell)
	if len(missing) != 5 {
		t.Errorf("before anything is recorded as found, missing: %v", missing)
	}
	for _, named := range found {
		named.Found()
	}
	clear(missing)
	l.Missing(tell)
	if !maps.Equal(missing, map[string]bool{"gone/too": false}) {
		t.Errorf("missing: %v", missing)
	}
	whole := NewList([]string{"a"}, true)
	if at, all := whole.In("a/b/c"); at == nil || !all || whole.IsNamed() || !at.IsNamed() {
		t.Error("a directory is not named with what is in it")
	}
}
