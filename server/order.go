package server

import (
	"math"
	"path"
	"slices"
	"strings"

	"github.com/usftp/usftp/wire"
)

// requestList holds requests in order of arrival. Removing near its front and adding at its end
// allocates nothing in the long run.
type requestList struct {
	buf  []*request
	head int
}

func (l *requestList) all() []*request { return l.buf[l.head:] }

func (l *requestList) len() int { return len(l.buf) - l.head }

func (l *requestList) add(r *request) {
	if l.head > 0 && len(l.buf) == cap(l.buf) {
		n := copy(l.buf, l.buf[l.head:])
		clear(l.buf[n:])
		l.buf, l.head = l.buf[:n], 0
	}
	l.buf = append(l.buf, r)
}

// remove removes r, which is usually near the front.
func (l *requestList) remove(r *request) {
	i := slices.Index(l.all(), r)
	if i < 0 {
		return
	}
	copy(l.buf[l.head+1:], l.buf[l.head:l.head+i])
	l.buf[l.head] = nil
	l.head++
	if l.head == len(l.buf) {
		l.buf, l.head = l.buf[:0], 0
	}
}

// mustFollow reports whether r, which came after e, has to wait for e on handle h, which both use.
func mustFollow(r, e *request, h *handle) bool {
	switch {
	case h.dir != nil, r.op.closes(), e.op.closes(), r.op == opFsetstat, e.op == opFsetstat:
		return true
	case e.op == opFsync:
		return false
	case r.op == opFsync:
		return e.writesTo(h)
	case r.writesTo(h) && e.writesTo(h):
		return r.overlaps(e, h)
	}
	return r.writesTo(h) || e.writesTo(h)
}

// writesTo reports whether r writes to the file of h. Reads and writes never run at the same time
// on one handle: a write beyond the end of a read decides whether that read sees the end of the
// file.
func (r *request) writesTo(h *handle) bool {
	return r.op == opWrite || r.op == opCopyData && r.target == h
}

// mostApart limits how far apart two requests may write to a file at once. A client that writes in
// order then never runs further ahead of an earlier WRITE, so that a file stored in parts (S3's
// have at least 5 MiB) need not end a part before the last WRITE to it has been executed.
const mostApart = 4 << 20

// overlaps reports whether two requests write to the same part of h, gain nothing by running at
// once, or write too far apart.
func (r *request) overlaps(e *request, h *handle) bool {
	if h.system || h.flags&wire.OpenAppend != 0 || r.handle == r.target || e.handle == e.target {
		return true
	}
	from, to := r.writeRange()
	otherFrom, otherTo := e.writeRange()
	if from > otherFrom {
		from, to, otherFrom, otherTo = otherFrom, otherTo, from, to
	}
	return otherFrom < to || otherFrom-to >= mostApart
}

func (r *request) writeRange() (from, to uint64) {
	from = r.offset
	if r.op == opCopyData {
		if from = r.toOffset; r.length == 0 {
			return from, math.MaxUint64
		}
	}
	if r.length > math.MaxUint64-from {
		return from, math.MaxUint64
	}
	return from, from + r.length
}

// touches reports whether the paths are equal, or one lies below the other.
func touches(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if !strings.HasPrefix(b, a) {
		return false
	}
	return len(a) == len(b) || b[len(a)] == '/' || a == "/"
}

// placeOf returns the path that determines a request's order. A path with ".." may lead anywhere,
// since there may be links before it, so it is ordered with everything.
func placeOf(name string) string {
	for rest := name; ; {
		element, after, more := strings.Cut(rest, "/")
		if element == ".." {
			return "/"
		}
		if !more {
			break
		}
		rest = after
	}
	if name == "" {
		return ""
	}
	return path.Clean(name)
}

// touches reports whether a request's paths concern a place.
func (r *request) touches(place string) bool {
	return touches(r.place, place) || r.place2 != "" && touches(r.place2, place)
}

// touchesRequest reports whether two requests on paths concern the same place.
func (r *request) touchesRequest(e *request) bool {
	return r.touches(e.place) || e.place2 != "" && r.touches(e.place2)
}

// schedule holds the unfinished requests, and decides which may start.
type schedule struct {
	paths        requestList // requests on paths
	pathsWaiting int
	active       []*handle // handles with requests
	turn         int       // index in active where the last search ended
	waiting      int       // requests that have not started
	running      int
}

// add adds a request that has arrived.
func (s *schedule) add(r *request) {
	s.waiting++
	if r.handle == nil {
		s.paths.add(r)
		s.pathsWaiting++
		return
	}
	s.addTo(r.handle, r)
	if r.target != nil && r.target != r.handle {
		s.addTo(r.target, r)
	}
}

func (s *schedule) addTo(h *handle, r *request) {
	if h.ops.len() == 0 {
		s.active = append(s.active, h)
		h.active = len(s.active)
	}
	h.ops.add(r)
	h.waiting++
}

// start marks a request as running.
func (s *schedule) start(r *request) {
	r.running = true
	s.waiting--
	s.running++
	if r.handle == nil {
		s.pathsWaiting--
		return
	}
	r.handle.waiting--
	if r.target != nil && r.target != r.handle {
		r.target.waiting--
	}
}

// done removes a request that has run.
func (s *schedule) done(r *request) {
	s.running--
	if r.handle == nil {
		s.paths.remove(r)
		return
	}
	s.doneOn(r.handle, r)
	if r.target != nil && r.target != r.handle {
		s.doneOn(r.target, r)
	}
}

func (s *schedule) doneOn(h *handle, r *request) {
	h.ops.remove(r)
	if h.ops.len() > 0 {
		return
	}
	last := s.active[len(s.active)-1]
	s.active[h.active-1], last.active = last, h.active
	s.active[len(s.active)-1] = nil
	s.active = s.active[:len(s.active)-1]
	h.active = 0
}

// all returns every request; a request on two handles appears twice.
func (s *schedule) all() []*request {
	all := slices.Clone(s.paths.all())
	for _, h := range s.active {
		all = append(all, h.ops.all()...)
	}
	return all
}

// next returns a request that may start and whose reply fits in room, or nil.
func (s *schedule) next(room int) *request {
	if s.pathsWaiting > 0 {
		for i, r := range s.paths.all() {
			if !r.running && r.charge <= room && s.pathMayStart(r, i) {
				return r
			}
		}
	}
	for range s.active {
		if s.turn++; s.turn >= len(s.active) {
			s.turn = 0
		}
		if r := s.firstOn(s.active[s.turn], room); r != nil {
			return r
		}
	}
	return nil
}

// pathMayStart reports whether the request at index i among those on paths may start.
func (s *schedule) pathMayStart(r *request, i int) bool {
	for _, e := range s.paths.all()[:i] {
		if (r.changes || e.changes) && !(r.op.onFiles() && e.op.onFiles()) && r.touchesRequest(e) {
			return false
		}
	}
	for _, h := range s.active {
		if !r.touches(h.place) {
			continue
		}
		for _, e := range h.ops.all() {
			if e.seq < r.seq && (r.changes || e.changes) {
				return false
			}
		}
	}
	return true
}

// firstOn returns the first unstarted request on h, if it may start. Requests on one handle start
// in order.
func (s *schedule) firstOn(h *handle, room int) *request {
	if h.waiting == 0 {
		return nil
	}
	for _, r := range h.ops.all() {
		if r.running {
			continue
		}
		if r.charge > room || !s.mayStartOn(r, r.handle) ||
			r.target != nil && !s.mayStartOn(r, r.target) {
			return nil
		}
		return r
	}
	return nil
}

func (s *schedule) mayStartOn(r *request, h *handle) bool {
	for _, e := range h.ops.all() {
		if e == r {
			break
		}
		if !e.running || mustFollow(r, e, h) {
			return false
		}
	}
	for _, e := range s.paths.all() {
		if e.seq < r.seq && (r.changes || e.changes) && e.touches(h.place) && !e.awaits(r) {
			return false
		}
	}
	return true
}

// awaits reports whether r may be waiting for a later CLOSE: mounts answer close(2) before they
// send CLOSE, and may send the next OPEN for reading first, while the file has not appeared yet.
func (r *request) awaits(close *request) bool {
	return r.op == opOpen && !r.changes && close.op.closes()
}
