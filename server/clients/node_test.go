package clients_test

import (
	"os/exec"
	"path/filepath"

	"github.com/usftp/usftp/internal/testenv"
)

// ssh2 is the npm package, driven by a program in testdata; NODE_PATH names its directory.
var ssh2 = func() *client {
	script, err := filepath.Abs("testdata/ssh2_client.js")
	if err != nil {
		panic(err) // there is no working directory
	}
	do := func(operation string) func(*site, string, string) {
		return func(s *site, a, b string) {
			s.t.Helper()
			s.run("node", script, s.port, s.key, operation, a, b)
		}
	}
	noTrees := "ssh2 moves single files"
	return &client{
		programs: []string{"node"},
		prepare: func(s *site) {
			if exec.Command("node", "-e", "require('ssh2')").Run() != nil {
				testenv.Unavailable(s.t, "ssh2 of npm")
			}
		},
		put: do("put"), get: do("get"), rename: do("rename"), symlink: do("symlink"),
		link: do("link"), chmod: do("chmod"),
		list: func(s *site, dir string) string {
			return s.run("node", script, s.port, s.key, "list", dir)
		},
		cannot: map[string]string{
			"put tree": noTrees, "get tree": noTrees, "resume put": "ssh2 copies whole files",
			"resume get": "ssh2 copies whole files", "copy": "ssh2 does not know copy-data",
		},
	}
}()
