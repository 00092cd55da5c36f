package verb

import "time"

// header begins each line of --json.
type header struct {
	Version int    `json:"v"`
	Kind    string `json:"kind"`
	Host    string `json:"host,omitempty"`
}

func (j *job) header(kind string) header { return header{1, kind, j.Host} }

// An errorLine reports a failure.
type errorLine struct {
	header
	Path    string `json:"path"`
	Message string `json:"message"`
}

// A doneLine reports a completed action: "removed", "made", "moved" and so on.
type doneLine struct {
	header
	Path   string `json:"path"`
	Target string `json:"target,omitempty"` // if there are two names
}

// A fileLine is a file and the attributes that the server has sent.
type fileLine struct {
	header
	Path   string     `json:"path"`
	Type   string     `json:"type"`
	Mode   string     `json:"mode,omitempty"` // octal, without the type
	Size   *uint64    `json:"size,omitempty"`
	MTime  *time.Time `json:"mtime,omitempty"`
	ATime  *time.Time `json:"atime,omitempty"`
	UID    *uint32    `json:"uid,omitempty"`
	GID    *uint32    `json:"gid,omitempty"`
	User   string     `json:"user,omitempty"` // if the server knows the name
	Group  string     `json:"group,omitempty"`
	Target string     `json:"target,omitempty"` // of a symbolic link
}

// printFile prints a file for --json.
func (j *job) printFile(name string, e *entry) {
	s := &e.stat
	line := fileLine{header: j.header("file"), Path: name, Type: typeOf(s).name, Target: e.target}
	if s.HasMode() {
		line.Mode = octal(s.Mode)
	}
	if s.HasSize() {
		line.Size = &s.Size
	}
	if s.HasTimes() {
		line.MTime, line.ATime = new(s.ModTime().UTC()), new(s.AccessTime().UTC())
	}
	if s.HasOwner() {
		line.UID, line.GID = &s.UID, &s.GID
		line.User, line.Group = j.names.known(s.UID, s.GID)
	}
	j.print(line)
}
