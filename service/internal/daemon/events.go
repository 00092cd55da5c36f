package daemon

import "github.com/usftp/usftp/server"

// subscribe has a function called for each event, after those that are called already.
func (s *service) subscribe(more func(server.Event)) {
	before := s.Events
	if s.Events = more; before != nil {
		s.Events = func(e server.Event) { before(e); more(e) }
	}
}
