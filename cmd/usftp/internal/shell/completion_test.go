package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/sftptest"
)

// completing is a shell in /srv on the host, with some names in its listings.
func completing() *shell {
	s := &shell{session: &session{home: "/home/me", dir: "/srv"}}
	s.listings = newListings(s.session.client)
	for dir, names := range map[string][]string{
		"/srv": {"a long name", "alpha", "beta/", "beta/x", "it's", ".hidden", "日本", "日月", "*star",
			"~tilde", "-rf it",
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
				l.entries = append(l.entries, complete.Entry{Name: trimmed, Dir: trimmed != name})
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
		"cd al":            "cd al", // not a directory
		"cd /s":            "cd /srv/",
		"cd ../ho":         "cd ../home/",
		"get .h":           "get .hidden ",
		"get 日":            "get 日",
		"get \\*":          "get \\*star ",
		"get *":            "get *", // a pattern
		"get \\~":          "get \\~tilde ",
		"rm -r":            "rm ./-rf\\ it ", // no flag
		"rm '-":            "rm ./'-rf it' ",
		"rm -- -":          "rm -- ./-rf\\ it ",
		"rm ./-":           "rm ./-rf\\ it ",
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
		"get \"\x1b":       "get \"\x1b", // no terminal should show that
		"get beta\\/o":     "get beta\\/one ",
		"get /empty/":      "get /empty/",
		"lls sub/":         "lls sub/inner ",
	} {
		head, candidates, tail := s.complete(typed+" rest", utf8.RuneCountInString(typed))
		got := typed
		if len(candidates) > 0 {
			got = head + common(candidates)
		}
		if got != want || tail != " rest" {
			t.Errorf("%q becomes %q and %q, want %q", typed, got, tail, want)
		}
		// The completed name is quoted correctly, whatever is in it.
		if words, err := split(got, shQuoting); strings.HasSuffix(got, " ") && got != typed &&
			err != nil {
			t.Errorf("%q becomes %q, which is %q, %v", typed, got, textsOf(words), err)
		}
	}
	for typed, want := range map[string][]string{
		"get 日":        {"日本", "日月"},
		"get 'beta/":   {"one", "two/"},
		"get be":       {"beta/"},
		"sync sub :/":  {"srv/", "home/"},
		"get \"a":      {"\"a long name", "\"alpha"},
		"get beta/two": {"two/"},
	} {
		head, candidates, _ := s.complete(typed, utf8.RuneCountInString(typed))
		if !slices.Equal(candidates, want) || !strings.HasPrefix(typed, head) {
			t.Errorf("for %q there are %q after %q, want %q", typed, candidates, head, want)
		}
	}
	if _, candidates, _ := s.complete("", 0); len(candidates) < len(commands) {
		t.Errorf("there are %d commands", len(candidates))
	}
}

// common returns the common prefix of the candidates, which the first Tab inserts.
func common(candidates []string) string {
	prefix := candidates[0]
	for _, c := range candidates {
		for !strings.HasPrefix(c, prefix) || !utf8.ValidString(prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return prefix
}

// Nobody waits for a listing: there are no names until it has arrived. An old one is used while it
// is read again.
func TestListings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewScripted(sftptest.Script{})
		server.Files.WriteFile("/srv/one", nil)
		link := server.Dial(sftptest.LinkConfig{ToServer: time.Second})
		client, err := usftp.NewClientPipe(link, link)
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		defer client.Close()
		l := newListings(func() (*usftp.Client, string) { return client, "/srv" })
		shows := func(when string, want ...string) {
			t.Helper()
			began := time.Now()
			var names []string
			for _, e := range l.get("/srv") {
				names = append(names, e.Name)
			}
			if !slices.Equal(names, want) || time.Since(began) > 0 {
				t.Errorf("%s: %q after %v, want %q", when, names, time.Since(began), want)
			}
		}
		shows("at first")
		shows("while it is read")
		time.Sleep(listingLimit)
		shows("when it has come", "one")
		server.Files.WriteFile("/srv/two", nil)
		shows("soon after", "one")
		time.Sleep(listingGood)
		shows("when it is old", "one")
		time.Sleep(listingLimit)
		shows("when it was read again", "one", "two")
		server.Files.WriteFile("/srv/three", nil)
		l.changed()
		shows("after a change")
		time.Sleep(listingLimit)
		shows("after a change, when it has come", "one", "three", "two")
	})
}

// The local copy of an edited file has a name that no program misinterprets.
func TestLocalName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/etc/nginx.conf": "nginx.conf", "a b.txt": "a_b.txt", "-rf": "rf",
		"x\x1b[m;$(id).c": "x__m___id_.c",
		"..":              "file", ".": "file", "日本.txt": "__.txt", ".bashrc": ".bashrc",
		strings.Repeat("x", 300) + ".go": "file.go", strings.Repeat(".", 10): "file",
	} {
		if got := localName(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

// TestTabWaits: the first Tab in a directory finds its names if they arrive soon, and lets the user
// type on if they do not.
func TestTabWaits(t *testing.T) {
	for after, want := range map[time.Duration][]string{
		listingWait / 2: {"one "}, listingWait * 2: nil} {
		synctest.Test(t, func(t *testing.T) {
			s, coming := completing(), &listing{arrived: make(chan struct{})}
			s.listings.dirs["/srv/late"] = coming
			time.AfterFunc(after, func() {
				s.listings.mu.Lock()
				defer s.listings.mu.Unlock()
				s.listings.dirs["/srv/late"] = &listing{read: time.Now(),
					entries: []complete.Entry{{Name: "one"}}}
				close(coming.arrived)
			})
			began := time.Now()
			_, got, _ := s.complete("ls late/o", len("ls late/o"))
			if waited := time.Since(began); !slices.Equal(got, want) ||
				waited != min(after, listingWait) {
				t.Errorf("after %v: %q", waited, got)
			}
		})
	}
}
