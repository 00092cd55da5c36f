package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/usftp/usftp/cmd/usftp/internal/files"
	"github.com/usftp/usftp/pool"
)

// A command is one entry of the table that defines dispatch, help, completion and the man page.
type command struct {
	names    []string // help shows the first
	flags    string   // the letters it accepts
	operands string   // as shown in help
	text     string   // its description
	long     func() string
	least    int    // operands
	most     int    // operands; 0 if they are not counted
	takes    []kind // the kinds of its operands, for completion; the last one repeats
	ownFlags bool   // it parses its own flags
	raw      bool   // the rest of the line is for the local shell
	offline  bool   // it needs no connection
	repeats  bool   // may be run again if the connection was lost
	changes  bool   // it changes the host
	ends     bool   // it ends the shell
	run      func(s *shell, ctx context.Context, r *request) error
}

// A kind is the kind of an operand.
type kind int

const (
	other kind = iota
	remote
	remoteDirectory
	local
	localDirectory
	either // local, or on the host with a leading colon
	commandName
)

// A request is a command with its operands.
type request struct {
	line
	flags map[byte]bool
	host  pool.Host // unless the command needs no connection
}

func (r *request) has(flag byte) bool { return r.flags[flag] }

// parseFlags takes the flags from the front of the operands, like getopt without permutation.
func (r *request) parseFlags() error {
	r.flags = make(map[byte]bool)
	for len(r.args) > 0 {
		text := r.args[0].text
		if len(text) < 2 || text[0] != '-' {
			return nil
		}
		r.args = r.args[1:]
		if text == "--" {
			return nil
		}
		for _, c := range []byte(text[1:]) {
			if strings.IndexByte(r.command.flags, c) < 0 {
				return fmt.Errorf("%s: unknown flag -%c; usage: %s", r.command.names[0], c,
					r.command.usage())
			}
			r.flags[c] = true
		}
	}
	return nil
}

// count checks the number of operands.
func (r *request) count() error {
	c, n := r.command, len(r.args)
	if c.most > 0 && (n < c.least || n > c.most) {
		return fmt.Errorf("usage: %s", c.usage())
	}
	return nil
}

// usage returns the command's syntax.
func (c *command) usage() string {
	words := []string{c.names[0]}
	if c.flags != "" {
		words = append(words, "[-"+c.flags+"]")
	}
	if c.operands != "" {
		words = append(words, c.operands)
	}
	return strings.Join(words, " ")
}

// find returns the command with a name, ignoring case.
func find(name string) *command {
	for i := range commands {
		for _, n := range commands[i].names {
			if strings.EqualFold(n, name) {
				return &commands[i]
			}
		}
	}
	return nil
}

const many = 1 << 20

var commands = slices.SortedFunc(slices.Values(append(own, verbs()...)), func(a, b command) int {
	return strings.Compare(a.names[0], b.names[0])
})

func init() {
	// These use the table.
	find("help").run, find("chgrp").run = (*shell).help, (*shell).chgrp
}

// fromSFTP lists sftp's other names for commands.
var fromSFTP = map[string][]string{"ls": {"dir"}}

// takes lists the kinds of operands of commands in package files, if they are not just files.
var takes = map[string][]kind{"chmod": {other, remote}, "chown": {other, remote},
	"mkdir": {remoteDirectory}, "rmdir": {remoteDirectory}, "du": {remoteDirectory},
	"find": {remoteDirectory, other}}

// verbs are the commands that usftp also has on its command line, such as `usftp ls host:`.
func verbs() (list []command) {
	for _, c := range files.SessionCommands() {
		kinds := takes[c.Name]
		if kinds == nil {
			kinds = []kind{remote}
		}
		list = append(list, command{names: append([]string{c.Name}, fromSFTP[c.Name]...),
			operands: c.Usage,
			text:     c.Short, takes: kinds, changes: c.Changes, ownFlags: true,
			long: c.Help,
			run: func(s *shell, ctx context.Context, r *request) error {
				return s.verb(ctx, c, r)
			}})
	}
	return list
}

// own are the commands that are not in package files.
var own = []command{
	{names: []string{"cd", "chdir"}, operands: "[DIR]", most: 1,
		text:  "change the directory on the host: without DIR, to the login directory; with -, to the previous one",
		takes: []kind{remoteDirectory}, repeats: true, run: (*shell).cd},
	{names: []string{"pwd"}, text: "print the directory on the host", offline: true,
		run: (*shell).pwd},
	{names: []string{"get", "mget"}, flags: "afpPrR", operands: "SRC... [DST]", least: 1,
		most: many, text: "copy files from the host; -r: directories too; -a: continue",
		takes: []kind{remote}, run: (*shell).get},
	{names: []string{"reget"}, flags: "fpPrR", operands: "SRC... [DST]", least: 1, most: many,
		text: "get -a: continue interrupted copies", takes: []kind{remote}, run: (*shell).get},
	{names: []string{"put", "mput"}, flags: "afpPrR", operands: "SRC... [DST]", least: 1,
		most: many, text: "copy files to the host; -r: directories too; -a: continue",
		takes: []kind{local}, changes: true, run: (*shell).put},
	{names: []string{"reput"}, flags: "fpPrR", operands: "SRC... [DST]", least: 1, most: many,
		text: "put -a: continue interrupted copies", takes: []kind{local}, changes: true,
		run: (*shell).put},
	{names: []string{"sync"}, operands: "[flags] SRC DST",
		text:  "make one directory equal to another; :DIR is on the host",
		takes: []kind{either}, changes: true, ownFlags: true, run: (*shell).sync},
	{names: []string{"cp", "copy"}, flags: "prR", operands: "SRC... DST", least: 2, most: many,
		text: "copy files on the host", takes: []kind{remote}, changes: true, run: (*shell).copy},
	{names: []string{"edit"}, operands: "FILE...", least: 1, most: many,
		text:  "edit files with $EDITOR, and put back those that only you have changed",
		takes: []kind{remote}, changes: true, run: (*shell).edit},
	{names: []string{"less", "more"}, operands: "FILE...", least: 1, most: many,
		text: "show files in $PAGER", takes: []kind{remote}, run: (*shell).less},
	{names: []string{"rename"}, flags: "l", operands: "OLD NEW", least: 2, most: 2,
		text:  "rename a file, replacing NEW if it exists; -l: fail if it does",
		takes: []kind{remote}, changes: true, run: (*shell).rename},
	{names: []string{"symlink"}, operands: "OLD NEW", least: 2, most: 2,
		text:  "make a symbolic link NEW to OLD",
		takes: []kind{remote}, changes: true, run: (*shell).symlink},
	{names: []string{"chgrp"}, operands: "[flags] GROUP FILE...", text: "change groups",
		takes: []kind{other, remote}, changes: true, ownFlags: true},
	{names: []string{"lcd", "lchdir"}, operands: "[DIR]", most: 1, offline: true,
		text:  "change the local directory: without DIR, to your home directory; with -, to the previous one",
		takes: []kind{localDirectory}, run: (*shell).lcd},
	{names: []string{"lpwd"}, text: "print the local directory", offline: true, run: (*shell).lpwd},
	{names: []string{"lls"}, raw: true, offline: true, operands: "[ARGUMENTS]", text: "run ls on this machine",
		takes: []kind{local}, run: (*shell).lls},
	{names: []string{"lmkdir"}, operands: "DIR...", least: 1, most: many, offline: true,
		text: "make local directories", takes: []kind{localDirectory}, run: (*shell).lmkdir},
	{names: []string{"lumask"}, operands: "MASK", least: 1, most: 1, offline: true,
		text: "set the umask of local files", run: (*shell).lumask},
	{names: []string{"!"}, raw: true, offline: true, operands: "[COMMAND]",
		text: "run a command, or a shell, on this machine", run: (*shell).escape},
	{names: []string{"progress"}, text: "turn the progress line on or off", offline: true,
		run: (*shell).progress},
	{names: []string{"version"}, text: "print the SFTP version and what the server offers",
		repeats: true, run: (*shell).version},
	{names: []string{"help", "?"}, operands: "[COMMAND]...", offline: true,
		text: "print this list, or help about commands", takes: []kind{commandName}},
	{names: []string{"exit", "bye", "quit"}, text: "end the session", offline: true, ends: true,
		run: func(*shell, context.Context, *request) error { return nil }},
}
