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

	// Redial, where it is not nil, makes a lost connection anew. It is for jobs with
	// Options.Retries; it may be called several times, and whatever it has opened before is its own
	// to close.
	Redial func(context.Context) (Host, error)

	// Identity is what tells the host from others in the journal, whatever it is called: user and
	// host key, say. "" takes Name.
	Identity string

	ahead  *ahead  // what it was asked already, nil where it was not
	habits *habits // what it has shown, over all jobs; nil where each begins anew

	// Pool is where further connections come from, for large files over long links. Nil means that
	// Client is all there is.
	Pool *Pool
}

// Direction is the way of a job.
type Direction int

// The ways of a job.
const (
	Upload   Direction = iota // from this machine to the host
	Download                  // from the host to this machine
	Relay                     // from another host to the host, through this machine
	Local                     // from this machine to itself, without a host
	Checking                  // nowhere: what there is, is compared with a list; see Check
)

// fromHost tells whether the source is on a host.
func (d Direction) fromHost() bool { return d == Download || d == Relay }

// toHost tells whether the target is on a host.
func (d Direction) toHost() bool { return d == Upload || d == Relay }

// String returns "upload", "download", "relay", "local" or "check".
func (d Direction) String() string {
	switch d {
	case Download:
		return "download"
	case Relay:
		return "relay"
	case Local:
		return "local"
	case Checking:
		return "check"
	}
	return "upload"
}

// MarshalText makes directions readable in JSON.
func (d Direction) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Placement says how the target comes to be.
type Placement int

// The placements.
const (
	// Auto writes a temporary file and renames it, and where that cannot be writes in place and
	// says so in a note.
	Auto Placement = iota
	// InPlace always writes the target itself.
	InPlace
	// Atomic writes a temporary file and renames it, or fails.
	Atomic
)

// Options change how jobs run. The zero Options are valid.
type Options struct {
	Placement Placement

	// Preserve sets the target's times and permissions to the source's, and makes it an error when
	// that fails. Without it the permissions of a file that is new are the source's as far as the
	// umask (ours, or the server's) allows; a file that is replaced keeps its own; and times are
	// kept in a tree, as far as the target lets them be, while a file that is copied alone has that
	// of its copying, as with scp. Symbolic links get their source's times where that can be; a
	// note says so once where not.
	Preserve bool

	// Owners gives the target the source's owner and group, by number, directories of trees too,
	// and makes it an error when that fails: as a rule only a superuser may give files away.
	// Symbolic links get it too; where they cannot (a host without lsetstat@openssh.com), a note
	// says so once. Without it a file that is replaced keeps its owner where it may.
	Owners bool

	// Sparse has blocks of zeros become holes in files that are written here: they read the same,
	// and take no room. Holes that a file of this machine has are kept without it, on the way to a
	// host too.
	Sparse bool

	// Sync has the target's data written to its disk before it takes its name. A server without
	// fsync@openssh.com cannot; that is an error.
	Sync bool

	// Resume goes on from what an interrupted job of the same source, target and host has left,
	// where it is proved to be the same: by the journal, and the server's hash of it (check-file)
	// or else the end of it, which is read back. Where nothing is proved all is sent again. In a
	// tree, files whose target has the source's size and time are taken for copied, and a target
	// that the interrupted job has made (by the journal) is the copy itself, in which none is made.
	// A single file that is copied from this machine to itself begins anew.
	Resume bool

	// Verify compares what the host has with what has passed, before the copy gets its name: by the
	// host's hash where it offers one (check-file), else by reading all of it back. What has passed
	// is hashed meanwhile; the file on this machine is not read a second time. Where it differs the
	// job fails with ErrVerify, and leaves the old target. A host that counts how often a file is
	// read is not read again; that is an error. In a tree, files that Resume would take for copied
	// are compared too, by the host's hash where it offers one, and copied again where they differ.
	Verify bool

	// Hash has the contents of each file hashed while they pass, on a goroutine of its own:
	// Result.Hash, and the Done and Kept events. "" takes none, and costs nothing.
	Hash Algorithm

	// List is what the contents are to be: a file whose hash is not the one that the list has for
	// it fails with ErrList before the copy gets its name. See [OpenList]. Its algorithm is taken
	// for Hash. What the list has and nobody has copied, List.Missing tells.
	List *List

	// Retries is how often a lost connection is made anew without anything arriving in between,
	// where the Host can redial. What was under way goes on from what had arrived without a gap; in
	// a tree, what is done is not done again. 0 means never.
	Retries int

	// RetryFor bounds how long a lost connection is tried to be made anew without anything arriving
	// in between. 0 means 15 minutes.
	RetryFor time.Duration

	// Backoff, where it is not nil, says how long is waited before a try, from 1 on. Else it is a
	// second, and twice as long before each further try, up to 30 s, of which up to half is taken
	// off at random.
	Backoff func(try int) time.Duration

	// Journal is a directory of this machine's where interrupted jobs note what they have left; ""
	// keeps no notes. Without it nothing can be resumed.
	Journal string

	// RateLimit bounds the rate, in bytes a second. 0 means that it is not bound.
	RateLimit int64

	// Events is told what happens, one event at a time, on a goroutine of the job's. It should not
	// block for long: the job waits for it. Where it panics the job ends, removes what it has
	// begun, and panics.
	Events func(Event)

	// ProgressEvery is the time between progress events. 0 means 200 ms.
	ProgressEvery time.Duration
}

// Job is one file to copy.
type Job struct {
	Host      Host
	Direction Direction

	// From is where the source of a Relay lies. Its data passes through this machine's memory, and
	// as much is under way on both sides as their links hold. Where From.Client is Host.Client the
	// host copies by itself, if it offers copy-data.
	From Host

	// Source and Target are paths: of this machine's file system and of the host's, in the order of
	// the direction. A target that is a directory gets a file with the source's last element.
	Source, Target string

	// Reader, where it is not nil, is what an upload sends; Source is then only a name. If it is at
	// hand already that the reader yields a certain number of bytes, Size says so, for the
	// progress.
	Reader io.Reader
	Size   int64

	// Writer, where it is not nil, is where a download goes; Target is then only a name.
	Writer io.Writer

	Options Options
}

// Verification is how a copy was verified.
type Verification string

// The ways to verify.
const (
	VerifiedByHash    Verification = "hash"    // the host's
	VerifiedByReading Verification = "reading" // all of it was read back
)

// Result tells what a job has done.
type Result struct {
	// the path that was written; with what was appended where it was a directory
	Target   string
	Bytes    int64         // copied, and on a failure: safe, from the beginning and without a gap
	Elapsed  time.Duration // from start to end
	Verified Verification  // how, "" where it was not
	Hash     Hash          // of the contents, where Options.Hash asked for it
	Resumed  int64         // of Bytes, those that an earlier job had copied
	Bound    Bound         // what bound the rate, as far as it is known
	Stripes  int           // further handles that took part
	InPlace  bool          // the target itself was written
	// the temporary file that an interruption or a lost connection has left, "" where there is none
	LeftBehind string
}

// Run copies the file. It returns when the copy is in place, or has failed, with an [*Error]. When
// ctx ends, the job stops, cuts what it has written to what is safe, and leaves it under its
// temporary name; the error is then ctx's cause.
//
// A file that one request holds takes five round trips up, one more where the target is a
// directory, and three down.
//
// It runs on the calling goroutine; so does Reader's Read and Writer's Write, which are waited for
// even when ctx ends.
func (j *Job) Run(ctx context.Context) (Result, error) {
	r := &run{Job: *j, began: time.Now()}
	ctx, done := listen(ctx, &r.Options)
	defer done()
	r.ctx = ctx
	r.line, r.from = lifelines(ctx, j.Direction, j.From, j.Host, &r.Options)
	r.Options.Hash = r.Options.algorithm()
	if j.Options.RateLimit > 0 {
		r.limiter = &limiter{ctx: ctx, rate: j.Options.RateLimit}
	}
	return r.do()
}

var errNoClient = errors.New("transfer: the Host has no Client")

// checkClients says what would else be a panic on a goroutine of ours, which no caller can recover
// from.
func (j *Job) checkClients() error {
	way := j.Direction
	if (way.toHost() || way.fromHost()) && j.Host.Client == nil ||
		way == Relay && j.From.Client == nil {
		return errNoClient
	}
	return nil
}
