package dial

import (
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// A program is the program to run in a session: RFC 4254, section 6.5.
type program struct {
	request string // "subsystem" or "exec"
	name    string // the subsystem's, or the command
}

func command(line string) program { return program{"exec", line} }

// payload returns the request's own part.
func (p program) payload() []byte { return ssh.Marshal(struct{ Name string }{p.name}) }

// String names the program for messages.
func (p program) String() string {
	if p.request == "exec" {
		return fmt.Sprintf("the command %q", p.name)
	}
	return "the subsystem " + p.name
}

// sftp returns the program that speaks SFTP.
func (c *Config) sftp() program {
	switch {
	case c.SFTPServer == "":
		return program{"subsystem", "sftp"}
	case strings.ContainsAny(c.SFTPServer, "/ \t"):
		return command(c.SFTPServer)
	}
	return program{"subsystem", c.SFTPServer}
}
