package server

import "log/slog"

// Options bound a session and say what it may do. A nil *Options is valid; so is the zero value of
// every field.
type Options struct {
	Policy

	// MaxHandles bounds the files and directories that are open at once: 1024 by default, 65535 at
	// most. OPEN fails when there are so many. Clients learn it from limits@openssh.com.
	MaxHandles int

	// MaxMemory bounds, in bytes, the contents of files that are being moved for the session: 2.5
	// MiB by default, at least 1 MiB. A session needs about 1 MiB more when all its other bounds
	// are reached.
	MaxMemory int

	// MaxConcurrent bounds the requests that run at once: 64 by default.
	MaxConcurrent int

	// Pool lends buffers. Sessions of one server should share one; nil gives the session its own.
	Pool *Pool

	// Work bounds what takes long. Sessions of one server should share one; nil gives the session
	// its own.
	Work *Work

	// DraftSymlinks is for clients that send the two paths of SYMLINK in the order of draft-02,
	// section 6.10, the link's own first; nearly all send the target first, as OpenSSH does.
	DraftSymlinks bool

	// Activity, when not nil, is told what the backend is at. Sessions may share one.
	Activity *Activity

	// Logger gets a line for each file and a warning for each session that ends badly; nil is
	// silent.
	Logger *slog.Logger
}
