package sftptest

import (
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/wire"
)

// Scripted is an SFTP server that follows a [Script]. It serves any number of streams over one file
// system. It is safe for concurrent use. On each stream requests are executed one after the other,
// in order.
type Scripted struct {
	// Files is the file system that clients see.
	Files *Files

	script Script
	fsid   uint64 // of its file system, unique to this server

	mu       sync.Mutex
	faults   []*armed
	requests []Request
	streams  map[*session]bool // being served
	served   int
	closed   bool
	serving  sync.WaitGroup

	open atomic.Int64 // handles
	full atomic.Bool  // a WRITE has met Script.FullAt
}

// NewScripted returns a server, to be given streams by [Scripted.Serve] or [Scripted.Dial].
func NewScripted(script Script) *Scripted {
	s := &Scripted{Files: newFiles(script.Home), script: script, streams: make(map[*session]bool),
		fsid: rand.Uint64()}
	s.AddFaults(script.Faults...)
	return s
}

// NewServer returns a server for the duration of a test: it is closed when the test ends, and its
// script is logged if the test failed.
func NewServer(t testing.TB, script Script) *Scripted {
	s := NewScripted(script)
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Logf("the server's script: %v", script)
		}
	})
	return s
}

// Dial returns the client's end of a new link whose other end is served on a new goroutine, which
// ends when either end is closed.
func (s *Scripted) Dial(link LinkConfig) *End {
	client, server := NewLink(link)
	if session := s.begin(server); session != nil {
		go session.run()
	}
	return client
}

// Serve serves one stream until it ends, and closes it. Closing the stream must interrupt a Read.
// Serve returns nil if the client or the script ended the conversation or the server was closed,
// otherwise an error.
func (s *Scripted) Serve(stream io.ReadWriteCloser) error {
	session := s.begin(stream)
	if session == nil {
		return nil
	}
	return session.run()
}

// begin takes a stream, or closes it and returns nil if the server is closed.
func (s *Scripted) begin(stream io.ReadWriteCloser) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		stream.Close()
		return nil
	}
	s.served++
	session := newSession(s, stream, s.served)
	s.streams[session] = true
	s.serving.Add(1)
	return session
}

func (s *Scripted) ended(session *session) {
	s.mu.Lock()
	delete(s.streams, session)
	s.mu.Unlock()
	s.open.Add(-int64(session.opened))
	s.serving.Done()
}

// Close closes all streams and waits until their goroutines have ended; Serve closes further
// streams at once. A gate that still holds replies does not prevent that.
func (s *Scripted) Close() error {
	s.mu.Lock()
	s.closed = true
	sessions := slices.Collect(maps.Keys(s.streams))
	s.mu.Unlock()
	for _, session := range sessions {
		session.stream.Close()
	}
	s.serving.Wait()
	return nil
}

// AddFaults adds faults to the script's. Their counts start now.
func (s *Scripted) AddFaults(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		s.faults = append(s.faults, &armed{Fault: f})
	}
}

// Requests returns the requests received so far in order, including INIT, or only those of the
// given types.
func (s *Scripted) Requests(types ...wire.Type) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(types) == 0 {
		return slices.Clone(s.requests)
	}
	var found []Request
	for _, r := range s.requests {
		if slices.Contains(types, r.Type) {
			found = append(found, r)
		}
	}
	return found
}

// ForgetRequests clears the record of requests.
func (s *Scripted) ForgetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// OpenHandles returns how many handles are open on all streams.
func (s *Scripted) OpenHandles() int { return int(s.open.Load()) }

// Streams returns how many streams are being served.
func (s *Scripted) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// note records a request and returns the actions for it.
func (s *Scripted) note(r Request) []Action {
	s.mu.Lock()
	s.requests = append(s.requests, r)
	var hit []Action
	for _, f := range s.faults {
		if f.hits(&r) {
			hit = append(hit, f.Do)
		}
	}
	s.mu.Unlock()
	if s.script.Intercept != nil {
		return append(s.script.Intercept(r), hit...)
	}
	return hit
}
