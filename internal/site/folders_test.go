package site

import "testing"

// The nearest folder with a root of its own has a path, whatever the case.
func TestRootOf(t *testing.T) {
	t.Parallel()
	s := &Site{}
	s.served.Store(&map[string]Served{"ann": {Root: "/srv/ann", Folders: []Folder{
		{Path: "/a", Root: "/srv/a"}, {Path: "/a/b/c", Root: "/srv/c"}, {Path: "/a/rule"},
		{Path: "/caf\u00e9", Root: "/srv/cafe"}}}})
	for name, want := range map[string][2]string{
		"/f": {"/srv/ann", "/"}, "/ab": {"/srv/ann", "/"}, "/a": {"/srv/a", "/a"},
		"/a/b": {"/srv/a", "/a"}, "/A/f": {"/srv/a", "/a"}, "/a/b/c/f": {"/srv/c", "/a/b/c"},
		"/a/rule/f": {"/srv/a", "/a"}, "/a/../f": {"/srv/ann", "/"},
		"/CAFE\u0301/f": {"/srv/cafe", "/caf\u00e9"}, "/caf": {"/srv/ann", "/"},
	} {
		if root, folder := s.RootOf("ann", name); [2]string{root, folder} != want {
			t.Errorf("%s is below %s at %s, want %s", name, root, folder, want)
		}
	}
	if root, _ := s.RootOf("bob", "/f"); root != "" {
		t.Errorf("bob has %s", root)
	}
}
