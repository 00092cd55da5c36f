package verb

import (
	"io/fs"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// An entry is a file that was listed or named, with its attributes.
type entry struct {
	name string // the last element of its path, or an operand
	stat usftp.FileStat

	target     string          // of a symbolic link, if requested
	targetStat *usftp.FileStat // of a symbolic link's target, if requested
	broken     bool            // the target was requested and does not exist
}

// The types of files in POSIX's mode bits.
const (
	typeMask   = 0o170000
	typeFIFO   = 0o010000
	typeChar   = 0o020000
	typeDir    = 0o040000
	typeBlock  = 0o060000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeSocket = 0o140000
)

// A fileType is the verbs' names for a type of file.
type fileType struct {
	letter byte   // ls -l
	name   string // --json
	stat   string
}

var fileTypes = map[uint32]fileType{
	typeFIFO:   {'p', "fifo", "fifo"},
	typeChar:   {'c', "character device", "character special file"},
	typeDir:    {'d', "directory", "directory"},
	typeBlock:  {'b', "block device", "block special file"},
	typeFile:   {'-', "file", "regular file"},
	typeLink:   {'l', "link", "symbolic link"},
	typeSocket: {'s', "socket", "socket"},
}

func typeOf(s *usftp.FileStat) fileType {
	if !s.HasMode() && !s.HasType() {
		return fileType{'?', "unknown", "unknown"}
	} else if t, ok := fileTypes[s.Mode&typeMask]; ok {
		return t
	}
	return fileType{'?', "file", "regular file"}
}

func (e *entry) is(kind uint32) bool { return e.stat.Mode&typeMask == kind }
func (e *entry) isDir() bool         { return e.is(typeDir) }
func (e *entry) isLink() bool        { return e.is(typeLink) }

// statOf returns the attributes in an answer of the client.
func statOf(info fs.FileInfo) usftp.FileStat { return *info.Sys().(*usftp.FileStat) }

// below returns the path of a name in a directory as find and ls print it.
func below(dir, name string) string {
	if strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// A follow says whether an operand that is a symbolic link means its target.
type follow int

const (
	followNever  follow = iota
	followToDir         // only if the target is a directory
	followAlways        // and a link without a target is an error
)

// lookup asks for the attributes of operands, all at once. It passes failures to failed, or reports
// them if failed is nil.
func (j *job) lookup(names []string, f follow, failed func(name string, err error)) []*entry {
	if failed == nil {
		failed = func(name string, err error) { j.fail("access", name, err) }
	}
	var ops pipeline
	var found []*entry
	for _, name := range names {
		var target *usftp.Pending[fs.FileInfo]
		link := private.OfClient(j.client).StartLook(j.at(name))
		if f != followNever {
			target = j.client.Async().Stat(j.at(name))
		}
		ops.add(func() {
			info, err := link()
			if err != nil {
				failed(name, err)
				return
			}
			if target != nil {
				to, err := target.Wait()
				if err != nil && f == followAlways {
					failed(name, err)
					return
				}
				if err == nil && (f == followAlways || to.IsDir()) {
					info = to
				}
			}
			j.earlier.meet(name)
			found = append(found, &entry{name: name, stat: statOf(info)})
		})
	}
	ops.drain()
	return found
}
