package hooks

import (
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/objectfs"
)

// A Kind is a kind of event that hooks are told of.
type Kind string

const (
	Uploaded   Kind = "uploaded"   // a file was written and closed, or got its final name
	Downloaded Kind = "downloaded" // a file was read and closed
	Renamed    Kind = "renamed"
	Removed    Kind = "removed" // a file, link or directory
	Login      Kind = "login"

	// Accept is asked before a file appears. A hook for it can be for nothing else.
	Accept Kind = "accept"
)

// Kinds are all kinds.
var Kinds = []Kind{Uploaded, Downloaded, Renamed, Removed, Login, Accept}

// kindOf returns the kind of an event, or "" if hooks are not told of it. A file under a temporary
// name counts as uploaded once it is renamed.
func kindOf(e server.Event) Kind {
	switch {
	case e.Kind == server.LoggedIn:
		return Login
	case e.Kind == server.FileClosed && !e.Upload:
		return Downloaded
	case e.Kind == server.FileClosed && !temporary(e.Path):
		return Uploaded
	case e.Kind != server.TreeChanged:
		return ""
	case e.Request == "rename", e.Request == "posix-rename":
		switch {
		case temporary(e.To):
			return ""
		case temporary(e.Path):
			return Uploaded
		}
		return Renamed
	case e.Request == "remove" && !temporary(e.Path), e.Request == "rmdir":
		return Removed
	}
	return ""
}

// temporary reports whether a name stands for no file of the user's. The lock of usftp sync has such
// a name, too: what somebody stores under it is no more hidden than under any other of these.
func temporary(name string) bool {
	return objectfs.FinalName(name) != name || path.Base(name) == localfs.SyncLock
}

// Event is the message to hooks, in JSON. docs/service.md describes its fields. Names that are not
// UTF-8 are in the fields of bytes, too.
type Event struct {
	ID          string    `json:"id,omitempty"`
	Kind        Kind      `json:"kind"`
	Unconfirmed bool      `json:"unconfirmed,omitempty"`
	Time        time.Time `json:"time"`
	User        string    `json:"user"`
	Remote      string    `json:"remote"`
	Protocol    string    `json:"protocol,omitempty"`
	Request     string    `json:"request,omitempty"`
	Root        string    `json:"root,omitempty"`
	Folder      string    `json:"folder,omitempty"`
	Path        string    `json:"path,omitempty"`
	PathBytes   []byte    `json:"path_bytes,omitempty"`
	To          string    `json:"to,omitempty"`
	ToBytes     []byte    `json:"to_bytes,omitempty"`
	File        string    `json:"file,omitempty"`
	ToFile      string    `json:"to_file,omitempty"`
	Read        int64     `json:"read,omitempty"`
	Written     int64     `json:"written,omitempty"`
	SHA256      string    `json:"sha256,omitempty"`
}

func newEvent(kind Kind, e server.Event, root, folder string) Event {
	made := Event{Kind: kind, Time: e.Time.UTC(), User: e.User, Remote: e.Remote,
		Protocol: e.Protocol, Request: e.Request, Root: root, Path: e.Path, To: e.To, Read: e.Read,
		Written: e.Written, SHA256: e.SHA256}
	if folder != "/" {
		made.Folder = folder
	}
	if kind == Uploaded && e.To != "" {
		made.Path, made.To = e.To, ""
	}
	if !utf8.ValidString(made.Path) {
		made.PathBytes = []byte(made.Path)
	}
	if !utf8.ValidString(made.To) {
		made.ToBytes = []byte(made.To)
	}
	return made
}

// complete fills in the fields that the outbox does not keep, before an event is delivered.
func (e *Event) complete(id string, unconfirmed bool) {
	e.ID, e.Unconfirmed = id, unconfirmed
	if e.PathBytes != nil {
		e.Path = string(e.PathBytes)
	}
	if e.ToBytes != nil {
		e.To = string(e.ToBytes)
	}
	e.File, e.ToFile = e.file(e.Path), e.file(e.To)
}

// file returns the place of a path on the server: a URL of object storage, or a name below the
// root, whatever the path contains. Links in it are not resolved.
func (e *Event) file(name string) string {
	if name == "" || e.Root == "" {
		return ""
	}
	name = path.Clean("/" + name)
	for range strings.Count(e.Folder, "/") { // the folder's name may be spelled otherwise here
		_, name, _ = strings.Cut(name[1:], "/")
		name = "/" + name
	}
	if strings.HasPrefix(e.Root, "s3://") {
		return strings.TrimSuffix(e.Root, "/") + path.Clean("/"+name)
	}
	return filepath.Join(e.Root, filepath.FromSlash(name))
}
