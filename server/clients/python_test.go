package clients_test

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/usftp/usftp/internal/testenv"
)

// python is a client library driven by a program in testdata. USFTP_PYTHON names an interpreter
// with the library.
func python(library string) *client {
	interpreter := os.Getenv("USFTP_PYTHON")
	if interpreter == "" {
		interpreter = "python3"
	}
	do := func(operation string) func(*site, string, string) {
		return func(s *site, a, b string) {
			s.t.Helper()
			s.run(interpreter, script(library), s.port, s.key, operation, a, b)
		}
	}
	c := &client{
		programs: []string{interpreter},
		prepare: func(s *site) {
			if exec.Command(interpreter, "-c", "import "+library).Run() != nil {
				testenv.Unavailable(s.t, library)
			}
		},
		put: do("put"), get: do("get"), putTree: do("put-tree"), getTree: do("get-tree"),
		list: func(s *site, dir string) string {
			return s.run(interpreter, script(library), s.port, s.key, "list", dir)
		},
		rename: do("rename"), symlink: do("symlink"), chmod: do("chmod"),
		resumePut: do("resume-put"), resumeGet: do("resume-get"),
	}
	if library == "asyncssh" {
		c.copy, c.link = do("copy"), do("link")
	} else {
		c.cannot = map[string]string{"link": "paramiko knows no hard links",
			"copy": "paramiko does not know copy-data"}
	}
	return c
}

func script(library string) string {
	name, err := filepath.Abs("testdata/" + library + "_client.py")
	if err != nil {
		panic(err) // there is no working directory
	}
	return name
}
