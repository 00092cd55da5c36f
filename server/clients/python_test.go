package clients_test

import "os"

// python is a client library driven by a program in testdata. USFTP_PYTHON names an interpreter
// with the library.
func python(library string) *client {
	interpreter := os.Getenv("USFTP_PYTHON")
	if interpreter == "" {
		interpreter = "python3"
	}
	c := &client{
		programs: []string{interpreter},
		prepare: func(s *site) {
			s.drive(library, interpreter, testdata("forked.py"), library,
				testdata(library+"_client.py"))
		},
		put: driven("put"), get: driven("get"),
		putTree: driven("put-tree"), getTree: driven("get-tree"), list: listDriven,
		rename: driven("rename"), symlink: driven("symlink"), chmod: driven("chmod"),
		resumePut: driven("resume-put"), resumeGet: driven("resume-get"),
	}
	if library == "asyncssh" {
		c.copy, c.link = driven("copy"), driven("link")
	} else {
		c.cannot = map[string]string{"link": "paramiko knows no hard links",
			"copy": "paramiko does not know copy-data"}
	}
	return c
}
