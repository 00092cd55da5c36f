package dial

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestSystemFilesOnWindows: anyone may make directories in the root of a disk, so nothing there is
// the system's: not \etc\ssh\ssh_config, which could name a program to run, nor known hosts. What
// Windows' ssh calls __PROGRAMDATA__ is no name below the present directory.
func TestSystemFilesOnWindows(t *testing.T) {
	for _, file := range configFiles(new(Config)) {
		if !filepath.IsAbs(file) {
			t.Errorf("the configuration is read from %s", file)
		}
	}
	w, err := libraryKeywords(Target{Host: "h"}, &Config{ConfigFile: "none"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSettings(Target{Host: "h"}, w, new(Config))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.globalKnown) > 0 {
		t.Errorf("without ssh, known hosts are in %q", s.globalKnown)
	}
	data := os.Getenv("ProgramData")
	for printed, want := range map[string][]string{
		`__PROGRAMDATA__\ssh/ssh_known_hosts __PROGRAMDATA__\ssh/ssh_known_hosts2`: {
			data + `\ssh/ssh_known_hosts`, data + `\ssh/ssh_known_hosts2`},
		`__PROGRAMDATA__\\ssh/ssh_known_hosts C:\a b\known`: {data + `\\ssh/ssh_known_hosts`,
			`C:\a b\known`},
		"/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2": nil, // as Git's ssh prints it
	} {
		w, err := parseG([]byte("hostname h\r\nglobalknownhostsfile " + printed + "\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := readSettings(Target{Host: "h"}, w, new(Config))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.globalKnown, want) {
			t.Errorf("of %s, known hosts are in %q; want %q", printed, s.globalKnown, want)
		}
	}
}
