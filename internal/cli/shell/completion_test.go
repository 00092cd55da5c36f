package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// completing is a shell in /srv on the host, with some names in its listings.
func completing() *Shell {
	s := &Shell{session: &session{home: "/home/me", dir: "/srv"}}
	s.listings = newListings(s.session)
	for dir, names := range map[string][]string{
		"/srv": {"a long name", "alpha", "beta/", "beta/x", "it's", ".hidden", "日本", "日月", "*star", "~tilde",
			"\x1b[31mred", "link/"},
		"/srv/beta": {"one", "two/"},
		"/home/me":  {"mine"},
		"/":         {"srv/", "home/"},
		"/empty":    nil,
	} {
		l := &listing{read: time.Now()}
		for _, name := range names {
			trimmed := strings.TrimSuffix(name, "/")
			if !strings.Contains(trimmed, "/") {
				l.names = append(l.names, entry{trimmed, trimmed != name})
			}
		}
		s.listings.dirs[dir] = l
	}
	return s
}

func TestComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"local file", "local.txt", "sub/inner"} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := completing()
	for typed, want := range map[string]string{
		"chm":              "chmod ",
		"-@chm":            "-@chmod ",
		"LPW":              "lpwd ",
		"help prog":        "help progress ",
		"get al":           "get alpha ",
		"get a\\ ":         "get a\\ long\\ name ",
		"get a":            "get a",
		"get 'a ":          "get 'a long name' ",
		"get \"a ":         "get \"a long name\" ",
		"get it":           "get it\\'s ",
		"get 'it":          "get 'it'\\''s' ",
		"get \"it":         "get \"it's\" ",
		"get b":            "get beta/",
		"get 'b":           "get 'beta/",
		"get beta/o":       "get beta/one ",
		"get alpha beta/t": "get alpha beta/two/",
		"cd l":             "cd link/",
		"cd al":            "cd al", // it is no directory
		"cd /s":            "cd /srv/",
		"cd ../ho":         "cd ../home/",
		"get .h":           "get .hidden ",
		"get 日":            "get 日",
		"get \\*":          "get \\*star ",
		"get *":            "get *", // a pattern
		"get \\~":          "get \\~tilde ",
		"get ~/m":          "get ~/mine ",
		"put local.":       "put local.txt ",
		"put local\\ ":     "put local\\ file ",
		"lcd s":            "lcd sub/",
		"lcd local":        "lcd local",
		"sync sub :b":      "sync sub :beta/",
		"sync :beta su":    "sync :beta sub/",
		"chmod 6":          "chmod 6",
		"chmod -R 644 al":  "chmod -R 644 alpha ",
		"ls -l al":         "ls -l alpha ",
		"nonsense al":      "nonsense al",
		"get no":           "get no",
		"get alpha \\":     "get alpha \\",
		"!ls al":           "!ls al",
		"pwd al":           "pwd al",
		"rename alpha be":  "rename alpha beta/",
		"get \"\x1b":       "get \"\x1b[31mred\" ",
		"get /empty/":      "get /empty/",
		"lls sub/":         "lls sub/inner ",
	} {
		c, pending := s.complete(typed+" rest", len(typed))
		got := typed
		if c.Text != "" {
			got = typed[:c.Start] + c.Text
		}
		if got != want || pending {
			t.Errorf("%q becomes %q, want %q", typed, got, want)
		}
		// What was completed is the name, whatever is in it.
		if words, err := split(got, shQuoting); strings.HasSuffix(got, " ") && got != typed && err != nil {
			t.Errorf("%q becomes %q, which is %q, %v", typed, got, textsOf(words), err)
		}
	}
	c, _ := s.complete("get 日", len("get 日"))
	if want := []string{"日本", "日月"}; !slices.Equal(c.List, want) {
		t.Errorf("the candidates are %q, want %q", c.List, want)
	}
	if c, _ := s.complete("", 0); len(c.List) < len(commands) {
		t.Errorf("there are %d commands", len(c.List))
	}
}

// Names that are asked for and not there yet are pending only if somebody is fetching them.
func TestCompleteWithoutConnection(t *testing.T) {
	t.Parallel()
	s := completing()
	if _, pending := s.complete("get /other/", len("get /other/")); pending {
		t.Error("it waits for a listing that nobody fetches")
	}
	s.listings.dirs["/other"] = new(listing) // under way
	if _, pending := s.complete("get /other/", len("get /other/")); !pending {
		t.Error("it does not wait for a listing that is under way")
	}
	s.listings.forget()
	if c, _ := s.complete("get al", len("get al")); c.Text != "" {
		t.Errorf("what is forgotten is completed: %q", c.Text)
	}
}

// An edited file has a name that no program takes for something else.
func TestLocalName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/etc/nginx.conf": "nginx.conf", "a b.txt": "a_b.txt", "-rf": "rf", "x\x1b[m;$(id).c": "x__m___id_.c",
		"..": "file", ".": "file", "日本.txt": "__.txt", ".bashrc": ".bashrc",
		strings.Repeat("x", 300) + ".go": "file.go", strings.Repeat(".", 10): "file",
	} {
		if got := localName(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}
