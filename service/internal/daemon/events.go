package daemon

import "github.com/usftp/usftp/server"

// subscribe makes each event call a function, after the functions it calls already.
func (s *service) subscribe(more func(server.Event)) {
	before := s.Events
	if s.Events = more; before != nil {
		s.Events = func(e server.Event) { before(e); more(e) }
	}
}
