package transfer

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/usftp/usftp"
)

// Host is a server with which files are exchanged.
type Host struct {
	Client *usftp.Client
	Name   string // in messages and events: "host" or "user@host"
}

// Direction is the way of a job.
type Direction int

// The ways of a job.
const (
	Upload   Direction = iota // from this machine to the host
	Download                  // from the host to this machine
)

// Placement says how the target comes to be.
type Placement int

// The placements.
const (
	// Auto writes a temporary file and renames it, and where that cannot be writes in place and says so in a note.
	Auto Placement = iota
	// InPlace always writes the target itself.
	InPlace
	// Atomic writes a temporary file and renames it, or fails.
	Atomic
)

// Options change how jobs run. The zero Options are valid.
type Options struct {
	Placement Placement

	// Preserve sets the target's times and permissions to the source's, and makes it an error when that fails. Without it the
	// permissions of a file that is new are the source's as far as the umask (ours, or the server's) allows; a file that
	// is replaced keeps its own.
	Preserve bool

	// Sync has the target's data written to its disk before it takes its name. A server without fsync@openssh.com cannot; that is
	// an error.
	Sync bool

	// RateLimit bounds the rate, in bytes a second. 0 means that it is not bound.
	RateLimit int64

	// Events is told what happens, one event at a time, from goroutines of the job. It should not block for long: the job waits for
	// it.
	Events func(Event)

	// ProgressEvery is the time between progress events. 0 means 200 ms.
	ProgressEvery time.Duration
}

// Job is one file to copy.
type Job struct {
	Host      Host
	Direction Direction

	// Source and Target are paths: of this machine's file system and of the host's, in the order of the direction. A target that is
	// a directory gets a file with the source's last element.
	Source, Target string

	// Reader, where it is not nil, is what an upload sends; Source is then only a name. If it is at hand already that the reader
	// yields a certain number of bytes, Size says so, for the progress.
	Reader io.Reader
	Size   int64

	// Writer, where it is not nil, is where a download goes; Target is then only a name.
	Writer io.Writer

	Options Options
}

// Result tells what a job has done.
type Result struct {
	Target     string        // the path that was written; with what was appended where it was a directory
	Bytes      int64         // copied, and on a failure: safe, from the beginning and without a gap
	Elapsed    time.Duration // from start to end
	InPlace    bool          // the target itself was written
	LeftBehind string        // the temporary file that an interruption or a lost connection has left, "" where there is none
}

// Kind is what an event tells.
type Kind string

// The kinds of events.
const (
	Started  Kind = "started"  // Size is known, or -1
	Progress Kind = "progress" // Bytes have arrived so far
	Note     Kind = "note"     // Message is something that a person should know, and is no failure
	Done     Kind = "done"     // Bytes and Elapsed are final
	Failed   Kind = "failed"   // Err says why, and LeftBehind what is left
)

// Event is something that has happened to a job. The fields that its kind does not name are zero.
type Event struct {
	Kind       Kind          `json:"kind"`
	Time       time.Time     `json:"time"`
	Host       string        `json:"host"`
	Direction  Direction     `json:"direction"`
	Source     string        `json:"source"`
	Target     string        `json:"target"`
	Size       int64         `json:"size"`
	Bytes      int64         `json:"bytes"`
	Elapsed    time.Duration `json:"elapsed_ns,omitempty"`
	Message    string        `json:"message,omitempty"`
	LeftBehind string        `json:"left_behind,omitempty"`
	Err        error         `json:"-"`
}

// Error is how a job fails: one sentence that names the file, the host and the cause.
type Error struct {
	Host      string
	Direction Direction
	Source    string
	Target    string
	Err       error  // the cause; errors.Is holds for what it holds for
	Detail    string // what is left behind, or what has happened to the target; "" where it is untouched
}

// Run copies the file. It returns when the copy is in place, or has failed, with an [*Error]. When ctx ends, the job stops, cuts what it
// has written to what is safe, and leaves it under its temporary name; the error is then ctx's cause.
func (j *Job) Run(ctx context.Context) (Result, error) { return Result{}, errors.ErrUnsupported }

// MarshalText makes directions readable in JSON.
func (d Direction) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns "upload" or "download".
func (d Direction) String() string {
	if d == Download {
		return "download"
	}
	return "upload"
}

// Error says the file, the host, the cause, and what is left.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
