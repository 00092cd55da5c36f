// Package scp has the lines of the protocol that scp used before SFTP, as both sides read and write
// them, and the patterns that name files on a host. There is no specification except OpenSSH's
// scp.c, source() and sink().
package scp

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	// MaxLine is the longest line of the protocol: a path and some numbers.
	MaxLine = 4096 + 128

	// maxTime is the latest time in seconds that fits into nanoseconds, as systems set it.
	maxTime = math.MaxInt64 / 1_000_000_000

	// MaxDepth is how deep directories may be nested.
	MaxDepth = 256
)

// A Header is the line that announces a file (C) or a directory (D).
type Header struct {
	Directory bool
	Mode      uint32 // the twelve bits of permissions
	Size      int64  // of a file
	Name      string // as it came: the caller must check it
}

// String returns the line.
func (h Header) String() string {
	letter := 'C'
	if h.Directory {
		letter = 'D'
	}
	return fmt.Sprintf("%c%04o %d %s\n", letter, h.Mode, h.Size, h.Name)
}

// ParseHeader parses a line that begins with C or D, without its end: mode in octal, size, name.
func ParseHeader(line string) (h Header, err error) {
	fields := strings.SplitN(line[1:], " ", 3)
	if len(fields) != 3 {
		return h, errors.New("invalid header: it needs mode, size and name")
	}
	mode, err := strconv.ParseUint(fields[0], 8, 16)
	if err != nil || mode > 0o7777 {
		return h, fmt.Errorf("invalid mode %q", fields[0])
	}
	size, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || size < 0 {
		return h, fmt.Errorf("invalid size %q", fields[1])
	}
	return Header{Directory: line[0] == 'D', Mode: uint32(mode), Size: size, Name: fields[2]}, nil
}

// Times is the line that may come before a Header (T): seconds since 1970.
type Times struct{ Mtime, Atime int64 }

// String returns the line.
func (t Times) String() string { return fmt.Sprintf("T%d 0 %d 0\n", t.Mtime, t.Atime) }

// ParseTimes parses a line that begins with T, without its end: modification and access time, in
// seconds and microseconds.
func ParseTimes(line string) (t Times, err error) {
	fields := strings.Fields(line[1:])
	if len(fields) != 4 {
		return t, errors.New("invalid T line: it needs four numbers")
	}
	var values [4]int64
	for i, field := range fields {
		if values[i], err = strconv.ParseInt(field, 10, 64); err != nil || values[i] > maxTime ||
			values[i] < -maxTime {
			return t, fmt.Errorf("invalid time %q", field)
		}
	}
	return Times{Mtime: values[0], Atime: values[2]}, nil
}
