package site

import (
	"maps"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/server/sshd"
)

// Outside is [sshd.Outside], but returns an account that has not been opened yet.
type Outside func(conn ssh.ConnMetadata, known bool, password string) (*Account, error)

// outside opens what users will see who are in no list, once they are let in.
func (s *Site) outside(decide Outside) sshd.Outside {
	if decide == nil {
		return nil
	}
	return func(conn ssh.ConnMetadata, known bool, password string) (*sshd.User, error) {
		one, err := decide(conn, known, password)
		if err != nil || known || one == nil {
			return nil, err
		}
		account := *one
		if err := s.openFor(one, false); err != nil {
			return nil, err
		}
		served := s.servedTo(&account, false)
		s.letting.Lock()
		defer s.letting.Unlock()
		if s.guests == nil {
			s.guests = map[string]Served{}
		}
		s.guests[conn.User()] = served
		return &one.User, nil
	}
}

// Guests returns what users may reach whom Outside has let in since the start.
func (s *Site) Guests() map[string]Served {
	s.letting.Lock()
	defer s.letting.Unlock()
	return maps.Clone(s.guests)
}

// servedOf returns what a user may reach, who may have come from outside.
func (s *Site) servedOf(user string) Served {
	if served, listed := s.Served()[user]; listed {
		return served
	}
	s.letting.Lock()
	defer s.letting.Unlock()
	return s.guests[user]
}
