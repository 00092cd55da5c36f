package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/usftp/usftp/bench/result"
)

// enoughRounds is how many rounds a row is to have. One of a single round has no median: a machine
// that was busy for a moment made its figures.
const enoughRounds = 5

func rounds(runs []result.Run) int {
	most := 0
	for _, run := range runs {
		most = max(most, run.Round)
	}
	return most
}

// leaveOut removes the rows of a single round, keeps their names, and counts those of few rounds.
func (r *report) leaveOut() {
	single := func(m measuredRow, name string) bool {
		if rounds(m.runs) > 1 {
			if rounds(m.runs) < enoughRounds {
				r.few++
			}
			return false
		}
		r.single = append(r.single, name)
		return true
	}
	r.rows = slices.DeleteFunc(r.rows, func(m measuredRow) bool { return single(m, m.row.Name) })
	r.serve = slices.DeleteFunc(r.serve, func(m servedRow) bool {
		return single(m.measuredRow, m.row.Name)
	})
	r.sessions = slices.DeleteFunc(r.sessions, func(m sessionRow) bool {
		return single(m.measuredRow, m.row.Name)
	})
	r.objects = slices.DeleteFunc(r.objects, func(m objectRow) bool {
		return single(m.measuredRow, m.row.Name)
	})
}

// roundsNote says how many rows are left out or have fewer rounds than they are to have.
func (r *report) roundsNote() string {
	var notes []string
	if n := len(r.single); n > 0 {
		notes = append(notes, fmt.Sprintf("rows measured in one round are left out: %d", n))
	}
	if r.few > 0 {
		notes = append(notes, fmt.Sprintf("rows with fewer than %d rounds: %d", enoughRounds, r.few))
	}
	if len(notes) == 0 {
		return ""
	}
	return capital(strings.Join(notes, "; ")) + ".\n"
}

// singleNote names the rows that are left out.
func (r *report) singleNote() string {
	if len(r.single) == 0 {
		return ""
	}
	return "\nLeft out, since they were measured in one round: " + strings.Join(r.single, ", ") + ".\n"
}
