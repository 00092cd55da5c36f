package server

import (
	"io/fs"
	"time"
)

// renamedInfo describes a file under its name in the composed tree.
type renamedInfo struct {
	fs.FileInfo
	name string
}

func (i *renamedInfo) Name() string { return i.name }

// wayTo describes a directory that is only on the way to a folder.
type wayTo string

func (w wayTo) Name() string       { return string(w) }
func (w wayTo) Size() int64        { return 0 }
func (w wayTo) Mode() fs.FileMode  { return fs.ModeDir | 0o555 }
func (w wayTo) ModTime() time.Time { return time.Unix(0, 0) }
func (w wayTo) IsDir() bool        { return true }
func (w wayTo) Sys() any           { return nil }
