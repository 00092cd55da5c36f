package endpoint

import (
	"errors"
	"fmt"
)

// ErrStream reports that a stream has no files.
var ErrStream = fmt.Errorf("%w: a stream is not a directory", errors.ErrUnsupported)

// Stream is a stream as a Place. It has no names.
type Stream struct{}

func (Stream) Join(_, name string) string                  { return name }
func (Stream) Base(string) string                          { return "" }
func (Stream) Identity(string) (host, name string, _ bool) { return "", "", false }
func (Stream) Stat(string) (Info, error)                   { return Info{}, ErrStream }
func (Stream) Lstat(string) (Info, error)                  { return Info{}, ErrStream }
func (Stream) RealPath(string) (string, error)             { return "", ErrStream }
func (Stream) ReadLink(string) (string, error)             { return "", ErrStream }
func (Stream) Mark(string) (string, error)                 { return "", ErrStream }
func (Stream) Volume(string) [2]uint64                     { return [2]uint64{} }
func (Stream) WriteSmall(string, []byte, bool) error       { return ErrStream }
func (Stream) Remove(string, bool) error                   { return ErrStream }

func (Stream) List(string, *Info, func(), func(string, Info, error) bool) error { return ErrStream }
func (Stream) ReadSmall(string, int64) ([]byte, Info, error)                    { return nil, Info{}, ErrStream }

func (Stream) Below(string) (Root, error) { return nil, ErrStream }
