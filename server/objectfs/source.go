package objectfs

import (
	"context"
	"slices"
	"sync"
)

// source is one version of an object that is being read. Its handles share the stretches fetched
// ahead: many clients read a long file through several handles, each of which reads a part of it,
// or skips the ranges that the others read.
type source struct {
	fs      *FS
	object  Object
	ctx     context.Context // ends with the last handle, not with a session
	stop    context.CancelFunc
	loading sync.WaitGroup

	mu      sync.Mutex
	handles []*reader // open ones
	reads   int       // READs being executed
	streams []*stream
	changed sync.Cond // a stretch has fewer users, or a stream has ended
}

// mostHandles is how many handles may share a source, to bound the work for a READ.
const mostHandles = 32

// sources holds the sources that further handles may join.
type sources struct {
	mu  sync.Mutex
	all map[version]*source
}

type version struct {
	key, etag string
	size      int64
}

func (o *Object) version() version { return version{o.Key, o.ETag, o.Size} }

// join returns the source that a new handle reads from.
func (all *sources) join(r *reader) *source {
	all.mu.Lock()
	defer all.mu.Unlock()
	v := r.info.object.version()
	s := all.all[v]
	if s == nil {
		s = &source{fs: r.fs, object: r.info.object}
		s.changed.L = &s.mu
		s.ctx, s.stop = context.WithCancel(context.WithoutCancel(r.ctx))
		if all.all == nil {
			all.all = map[version]*source{}
		}
		all.all[v] = s
		r.fs.memory.reading.add(s)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handles = append(s.handles, r); len(s.handles) == mostHandles {
		delete(all.all, v)
	}
	return s
}

// leave removes a handle. For the last one it waits until nothing is being fetched any more.
func (all *sources) leave(r *reader) {
	s := r.source
	if all.remove(r) == 0 {
		r.fs.memory.reading.remove(s)
		s.stop()
		s.loading.Wait()
	}
}

// remove removes a handle from its source, and returns how many are left.
func (all *sources) remove(r *reader) int {
	all.mu.Lock()
	defer all.mu.Unlock()
	s := r.source
	s.mu.Lock()
	defer s.mu.Unlock()
	r.use(nil)
	s.handles = slices.DeleteFunc(s.handles, func(h *reader) bool { return h == r })
	if v := s.object.version(); len(s.handles) == 0 && all.all[v] == s {
		delete(all.all, v)
	}
	return len(s.handles)
}

// find returns the stretch that holds an offset, and its stream, or nil. Of several streams it
// prefers the one that has come furthest, so that the others end.
func (s *source) find(offset int64) (furthest *stream, found *stretch) {
	for _, q := range s.streams {
		if one := q.find(offset); one != nil && (found == nil || q.next > furthest.next) {
			furthest, found = q, one
		}
	}
	return furthest, found
}

// leave ends the use of a stretch. The caller holds the lock.
func (s *source) leave(one *stretch) {
	one.users--
	s.changed.Broadcast()
	if one.users < 0 {
		one.drop()
	}
}
