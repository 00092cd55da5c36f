//go:build linux

package servers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/testenv"
)

// A peer is another program's server.
type peer struct {
	name, version string
	start         func(t *testing.T, s *site) *host
	limits        []limit
}

// A limit is what a server cannot do itself.
type limit struct {
	steps []string
	why   string // as docs/hosts.md has it
	says  string // what the command says, as a regular expression; "" if it cannot know
}

// A host is a running server.
type host struct {
	addr string // its host and port
	user string
	dir  string            // where the steps work, as the server knows it
	disk endpointtest.Disk // the same, as another program knows it
	real string            // the same, if it is on this machine

	config, home, near string
}

// TestHosts goes through the same steps on each server. What reports success has succeeded, and
// what the server cannot do fails with one line that says so.
func TestHosts(t *testing.T) {
	for _, p := range peers {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			h := p.start(t, s)
			h.prepare(t, s)
			for i, c := range steps {
				t.Run(c.name, func(t *testing.T) { h.try(t, i, p) })
			}
			if h.real != "" {
				t.Run("full disk", h.fullDisk)
			}
		})
	}
}

// prepare makes what the command needs here.
func (h *host) prepare(t *testing.T, s *site) {
	h.home, h.near, h.config = t.TempDir(), t.TempDir(), s.file("ssh_config")
	address, port, _ := strings.Cut(h.addr, ":")
	must(t, os.WriteFile(h.config, fmt.Appendf(nil, "Host far\n\tHostName %s\n\tPort %s\n"+
		"\tUser %s\n\tIdentityFile %s\n\tIdentitiesOnly yes\n\tIdentityAgent none\n"+
		"\tStrictHostKeyChecking no\n\tLogLevel ERROR\n\tUserKnownHostsFile %s\n"+
		"\tGlobalKnownHostsFile none\n", address, port, h.user, s.file("id"),
		s.file("known_hosts")), 0o600))
	if known, err := os.ReadFile(s.file("host.pub")); err == nil {
		must(t, os.WriteFile(s.file("known_hosts"), fmt.Appendf(nil, "[%s]:%s %s", address, port,
			known), 0o600))
	}
}

// try does one step.
func (h *host) try(t *testing.T, i int, p peer) {
	s := &step{T: t, host: h, id: fmt.Sprint("step", i+1), disk: h.disk,
		limits: p.limits}
	s.local = filepath.Join(h.near, s.id)
	must(t, os.Mkdir(s.local, 0o755))
	s.disk.Mkdir(s.id)
	for _, l := range p.limits {
		if slices.Contains(l.steps, steps[i].name) {
			s.limit = &l
		}
	}
	defer func() {
		if end := recover(); end != nil && end != any(ended{}) {
			panic(end)
		}
		if s.limit != nil && !s.said && !t.Failed() {
			t.Errorf("the server can do it, or the command does not say %q", s.limit.says)
		}
	}()
	steps[i].do(s)
}

// fullDisk copies a file for which the host has a little too little room: what is said to be copied
// is, also if the server acknowledges a WRITE of which it has stored a part.
func (h *host) fullDisk(t *testing.T) {
	s := &step{T: t, host: h, id: "full", disk: h.disk, local: filepath.Join(h.near, "full")}
	must(t, os.Mkdir(s.local, 0o755))
	s.disk.Mkdir(s.id)
	full := filepath.Join(h.real, s.id)
	if err := unix.Mount("tmpfs", full, "tmpfs", 0, "size=16k"); err != nil {
		testenv.Unavailable(t, fmt.Sprint("mounting a file system: ", err))
	}
	defer unix.Unmount(full, unix.MNT_DETACH)
	s.put("a", "old")
	s.here("a", big[:20_000])
	for _, args := range [][]string{{"cp", "a", s.far("a")}, {"sync", "--no-lock", ".", s.far(".")}} {
		if o := s.run(args[0], args[1:]...); o.code == 0 ||
			!strings.Contains(o.stderr, "usftp: cannot copy ") {
			t.Errorf("%s: %+v", args, o)
		}
		s.there(map[string]string{"a": "old"})
	}
}

// nearNames are the names of all files in the local directories.
func (h *host) nearNames() (names []string) {
	filepath.WalkDir(h.near, func(name string, _ os.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	return names
}

// TestHostsInTheDocs: docs/hosts.md has what TestHosts has.
func TestHostsInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/hosts.md")
	must(t, err)
	var rows []string
	for _, p := range peers {
		passed, why := len(steps), []string(nil)
		for _, l := range p.limits {
			passed -= len(l.steps)
			why = append(why, l.why)
			for _, name := range l.steps {
				known := false
				for _, c := range steps {
					known = known || c.name == name
				}
				if !known {
					t.Errorf("%s: there is no step %q", p.name, name)
				}
			}
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %d | %s |\n", p.name, p.version, passed,
			strings.Join(why, "; ")))
	}
	if table := strings.Join(rows, ""); !strings.Contains(string(text), table) {
		t.Errorf("docs/hosts.md does not have\n%s", table)
	}
	if n := fmt.Sprintf("the same %d steps", len(steps)); !strings.Contains(string(text), n) {
		t.Errorf("docs/hosts.md does not say %q", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
