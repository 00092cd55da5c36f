package main

import (
	"errors"
	"testing"

	"github.com/usftp/usftp/bench/rows"
)

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name, rows                           string
		commands, servers, sessions, objects int
	}{
		{"one row", "get", 1, 0, 0, 0},
		{"the set for the transport", transportSet, len(rows.Transport()) - 1, 1, 0, 0},
		{"all kinds", "put|serve-sftp-put-gcm-1|sessions-put|objects-put", 1, 1, 1, 1},
		{"everything", ".*", len(rows.All()), len(rows.Serve()), len(rows.Sessions()),
			len(rows.Objects())},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := choose(options{rows: test.rows, size: 5})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.commands) != test.commands || len(s.servers) != test.servers ||
				len(s.sessions) != test.sessions || len(s.objects) != test.objects {
				t.Errorf("%d commands, %d servers, %d sessions, %d of object storage",
					len(s.commands), len(s.servers), len(s.sessions), len(s.objects))
			}
			for _, row := range s.commands {
				if row.Bytes != 5 {
					t.Errorf("row %s has %d bytes", row.Name, row.Bytes)
				}
			}
		})
	}
	if _, err := choose(options{rows: "get-1g"}); !errors.Is(err, errNoRow) {
		t.Errorf("an unknown row: %v", err)
	}
}

func TestChooseContestants(t *testing.T) {
	s, err := choose(options{rows: "get|serve-sftp-get-gcm-1", only: "scp|usftp: sftp"})
	if err != nil {
		t.Fatal(err)
	}
	if c := s.commands[0].Contestants; len(c) != 1 || c[0].Name != "scp" {
		t.Errorf("contestants of get: %v", c)
	}
	if c := s.servers[0].Contestants; len(c) != 1 || c[0].Name() != "usftp: sftp" {
		t.Errorf("contestants at servers: %v", c)
	}
}
