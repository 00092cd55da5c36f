package shell

import (
	"path/filepath"
	"testing"
)

// A name that is quoted is not the home directory's: one that is called ~ can be removed.
func TestQuotedTilde(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
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
