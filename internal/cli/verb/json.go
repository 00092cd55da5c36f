package verb

import (
	"time"

	"github.com/usftp/usftp"
)

// header begins each line of --json.
type header struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"`
	Host    string `json:"host,omitempty"`
}

// An errorLine reports a failure.
type errorLine struct {
	header
	Path    string `json:"path"`
	Message string `json:"message"`
}

// A doneLine reports something done: "removed", "made", "moved" and so on.
type doneLine struct {
	header
	Path   string `json:"path"`
	Target string `json:"target,omitempty"` // if there are two names
}

// A fileLine is a file and its attributes.
type fileLine struct {
	header
	Path string `json:"path"`
	attributes
	Target string `json:"target,omitempty"` // of a symbolic link
}

// attributes are those that the server has sent.
type attributes struct {
	Type  string     `json:"type"`
	Mode  string     `json:"mode,omitempty"` // octal, without the type
	Size  *uint64    `json:"size,omitempty"`
	MTime *time.Time `json:"mtime,omitempty"`
	ATime *time.Time `json:"atime,omitempty"`
	UID   *uint32    `json:"uid,omitempty"`
	GID   *uint32    `json:"gid,omitempty"`
	User  string     `json:"user,omitempty"` // if the server knows the name
	Group string     `json:"group,omitempty"`
}

// attributesOf returns attributes for --json, with the known names of owners.
func attributesOf(j *job, s *usftp.FileStat) attributes {
	a := attributes{Type: typeOf(s).name}
	if s.HasMode() {
		a.Mode = octal(s.Mode)
	}
	if s.HasSize() {
		a.Size = &s.Size
	}
	if s.HasTimes() {
		mtime, atime := s.ModTime().UTC(), s.AccessTime().UTC()
		a.MTime, a.ATime = &mtime, &atime
	}
	if s.HasOwner() {
		a.UID, a.GID = &s.UID, &s.GID
		a.User, a.Group = j.names.known(s.UID, s.GID)
	}
	return a
}
