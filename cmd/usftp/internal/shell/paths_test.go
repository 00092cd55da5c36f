package shell

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A pattern begins at the login directory after ~/, as a name does; on the host only where sh's
// quoting holds.
func TestPatternsBelowHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, name := range []string{"a.txt", "b.txt", "c"} {
		if err := os.WriteFile(filepath.Join(home, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for typed, want := range map[string]string{
		"~/*.txt": `/home/m\[e/*.txt`, `\~/*.txt`: `/srv/\~/*.txt`, "*.txt": "/srv/*.txt", "/*": "/*",
	} {
		s := &shell{session: &session{home: "/home/m[e", dir: "/srv"}}
		words, err := split(typed, s.quoting)
		if err != nil {
			t.Fatal(err)
		}
		s.expand(words[0], func(got, _ string) ([]string, error) {
			if got != want {
				t.Errorf("%s is %s on the host, want %s", typed, got, want)
			}
			return nil, nil
		})
	}
	s := &shell{}
	words, err := split("~/*.txt", s.quoting)
	if err != nil {
		t.Fatal(err)
	}
	names, err := s.localNames(words[0])
	want := []string{filepath.Join(home, "a.txt"), filepath.Join(home, "b.txt")}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("here it is %q, %v, want %q", names, err, want)
	}
}

// A name that is quoted is not the home directory's: one that is called ~ can be removed.
func TestQuotedTilde(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	s := &shell{session: &session{home: "/home/me", dir: "/srv"}}
	for typed, want := range map[string][2]string{
		"~": {"/home/me", home}, "~/a": {"/home/me/a", filepath.Join(home, "a")}, `\~`: {"~", "~"},
		"'~'": {"~", "~"}, `"~"`: {"~", "~"}, `\~/a`: {"~/a", "~/a"}, "'~/a'": {"~/a", "~/a"},
		"a~": {"a~", "a~"}, "~a": {"~a", "~a"},
	} {
		words, err := split(typed, s.quoting)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{s.tilde(words[0]), s.localTilde(words[0])}; got != want {
			t.Errorf("%s is %q on the host and here, want %q", typed, got, want)
		}
	}
}
