package clients_test

import (
	"bufio"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/usftp/usftp/internal/testenv"
)

// driver is a program in testdata that drives a client library. It has a line with each operation,
// and answers with what came of it: to start it for each would take longer than most operations.
type driver struct {
	s   *site
	in  io.Writer
	out *json.Decoder
}

// drive starts a site's driver, which begins with an empty line if it has the library.
func (s *site) drive(library, program string, args ...string) {
	s.t.Helper()
	cmd := s.command(program, args...)
	cmd.Stderr = s.t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		testenv.Unavailable(s.t, library)
	}
	s.driver = &driver{s, in, json.NewDecoder(lines)}
}

// run has the driver do an operation, and returns its output; it must succeed.
func (d *driver) run(operation ...string) string {
	d.s.t.Helper()
	var ended struct {
		Status int
		Said   string
	}
	err := json.NewEncoder(d.in).Encode(append([]string{d.s.port, d.s.key}, operation...))
	if err == nil {
		err = d.out.Decode(&ended)
	}
	if err != nil || ended.Status != 0 {
		d.s.t.Fatalf("%q: %v, status %d\n%.2000s", operation, err, ended.Status, ended.Said)
	}
	return ended.Said
}

// driven returns the client's operation of that name.
func driven(operation string) func(s *site, a, b string) {
	return func(s *site, a, b string) {
		s.t.Helper()
		s.driver.run(operation, a, b)
	}
}

func listDriven(s *site, dir string) string { return s.driver.run("list", dir) }

func testdata(name string) string {
	path, err := filepath.Abs("testdata/" + name)
	if err != nil {
		panic(err) // there is no working directory
	}
	return path
}
