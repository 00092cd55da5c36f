package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

// A Record is an entry of the audit trail. docs/service.md describes its fields. Names that are not
// UTF-8 are in the fields of bytes, too.
type Record struct {
	Time      time.Time `json:"time"`
	Node      string    `json:"node"`
	Kind      string    `json:"kind"`
	User      string    `json:"user,omitempty"`
	Remote    string    `json:"remote,omitempty"`
	Client    string    `json:"client,omitempty"`
	Method    string    `json:"method,omitempty"`
	Key       string    `json:"key,omitempty"`
	Protocol  string    `json:"protocol,omitempty"`
	Request   string    `json:"request,omitempty"`
	Path      string    `json:"path,omitempty"`
	PathBytes []byte    `json:"path_base64,omitempty"`
	To        string    `json:"to,omitempty"`
	ToBytes   []byte    `json:"to_base64,omitempty"`
	Upload    bool      `json:"upload,omitempty"`
	Read      int64     `json:"read,omitempty"`
	Written   int64     `json:"written,omitempty"`
	Seconds   float64   `json:"seconds,omitempty"`
	SHA256    string    `json:"sha256,omitempty"` // of the file
	Details   string    `json:"details,omitempty"`
	By        string    `json:"by,omitempty"`
	Error     string    `json:"error,omitempty"`
	Count     int64     `json:"count,omitempty"` // of records lost or left out
}

// RecordsLost is the kind of a record that says how many others were lost, because the store was
// down for long.
const RecordsLost = "records lost"

const (
	// mostUnwritten is how many bytes of records a node keeps in memory, while the store is down or
	// slow.
	mostUnwritten = 16 << 20

	// recordsAtOnce is how many records a statement reads or writes; it writes fewer if they have
	// bytesAtOnce.
	recordsAtOnce = rowsAtOnce
	bytesAtOnce   = 256 << 10

	// removedAtOnce is how many old records a statement removes, and mostRemoved how many such
	// statements run in a row.
	removedAtOnce = 5000
	mostRemoved   = 100
)

// trail holds this node's records that are not in the store yet.
type trail struct {
	mu      sync.Mutex
	waiting []unwritten
	bytes   int
	most    int   // of bytes
	lost    int64 // since the last record that says so
	number  int64 // of records of this node
	told    time.Time
	keep    time.Duration
	full    chan struct{} // the records for a statement are waiting

	writing sync.Mutex
	clock   clock
}

// clock follows the database's clock, since those of the nodes may differ. It is compared now and
// then, and corrected only if it is far off, so that records stay in order.
type clock struct {
	asked, base time.Time
	atBase      int64 // by the database's clock
}

const clockAge, clockError = time.Minute, time.Second

// keep keeps the clock right.
func (c *clock) keep(ctx context.Context, s *Store) error {
	if !c.asked.IsZero() && time.Since(c.asked) < clockAge {
		return nil
	}
	var at int64
	asked := time.Now()
	if err := s.doOne(ctx, func(t tx) error {
		_, err := t.one(`SELECT @now`, nil, &at)
		return err
	}); err != nil {
		return err
	}
	if off := at - c.at(asked); c.asked.IsZero() || max(off, -off) > clockError.Milliseconds() {
		c.base, c.atBase = asked, at
	}
	c.asked = asked
	return nil
}

// at returns a time of this node by the database's clock.
func (c *clock) at(t time.Time) int64 { return c.atBase + t.Sub(c.base).Milliseconds() }

type unwritten struct {
	id, user, text string
	made           time.Time
}

func (u *unwritten) size() int { return len(u.text) + len(u.user) + 200 }

func (r *trail) init() { r.most, r.full = mostUnwritten, make(chan struct{}, 1) }

// Record appends to the audit trail: soon, and without waiting. If a node cannot keep all records
// while the store is down, some are lost; the log, and the trail itself, say how many.
func (s *Store) Record(one Record) {
	one.Node = s.node
	text, err := json.Marshal(one)
	r := &s.trail
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	// PostgreSQL takes no NUL, and only UTF-8.
	u := unwritten{id: fmt.Sprintf("%s-%012d", s.node[len(s.node)-8:], r.number), made: one.Time,
		user: column(one.User), text: string(text)}
	if err != nil || r.bytes+u.size() > r.most {
		r.lost++
		if time.Since(r.told) > time.Minute {
			r.told = time.Now()
			s.log.Error("the audit trail loses records: the store does not take them", "lost",
				r.lost, "error", err)
		}
		return
	}
	r.waiting, r.bytes = append(r.waiting, u), r.bytes+u.size()
	if len(r.waiting) >= recordsAtOnce {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
}

// column makes text fit for a column of any database.
func column(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// KeepRecords sets the age at which records of the audit trail are removed.
func (s *Store) KeepRecords(age time.Duration) {
	s.trail.mu.Lock()
	defer s.trail.mu.Unlock()
	s.trail.keep = age
}

// run writes records until ctx ends, some at a time, so that a file costs no statement of its own.
func (r *trail) run(ctx context.Context, s *Store) {
	tick := time.NewTicker(s.times.tick)
	defer tick.Stop()
	var cleaned time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.full:
		}
		r.flush(ctx, s)
		if time.Since(cleaned) >= s.times.clean {
			cleaned = time.Now()
			r.clean(ctx, s)
		}
	}
}

// flush writes the waiting records, until the store does not take them.
func (r *trail) flush(ctx context.Context, s *Store) {
	r.writing.Lock()
	defer r.writing.Unlock()
	for {
		some, lost := r.next()
		if len(some) > 0 && r.write(ctx, s, some) != nil {
			return
		}
		r.mu.Lock()
		for i := range some {
			r.bytes -= some[i].size()
		}
		r.waiting = r.waiting[len(some):]
		if len(r.waiting) == 0 {
			r.waiting = nil
		}
		r.lost -= lost
		r.mu.Unlock()
		if lost > 0 { // there is room now
			s.log.Error("the audit trail has lost records", "lost", lost)
			s.Record(Record{Time: time.Now(), Kind: RecordsLost, Count: lost})
			continue
		}
		if len(some) == 0 {
			return
		}
	}
}

// next returns the records for one statement, and how many were lost.
func (r *trail) next() (some []unwritten, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(r.waiting), recordsAtOnce) && bytes < bytesAtOnce {
		bytes += r.waiting[n].size()
		n++
	}
	return r.waiting[:n:n], r.lost
}

// end writes the remaining records, and logs how many could not be written.
func (r *trail) end(ctx context.Context, s *Store) {
	r.flush(ctx, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if lost := r.lost + int64(len(r.waiting)); lost > 0 {
		s.log.Error("the audit trail has lost records", "lost", lost)
	}
}

// write writes records in one statement. A record that is there already was written by a try whose
// answer was lost.
func (r *trail) write(ctx context.Context, s *Store, records []unwritten) error {
	if err := r.clock.keep(ctx, s); err != nil {
		return err
	}
	rows := make([][]any, len(records))
	for i, one := range records {
		rows[i] = []any{one.id, r.clock.at(one.made), one.user, one.text}
	}
	return s.doOne(ctx, func(t tx) error {
		return t.insert(`audit (id, made, name, record)`, `(?, ?, ?, ?)`,
			`ON CONFLICT (id) DO NOTHING`, rows)
	})
}

// clean removes records that are too old.
func (r *trail) clean(ctx context.Context, s *Store) {
	r.mu.Lock()
	keep := r.keep
	r.mu.Unlock()
	if keep == 0 {
		return
	}
	if _, steady, err := s.Clock(ctx); err != nil || !steady {
		return
	}
	rows := int64(removedAtOnce)
	for i := 0; rows == removedAtOnce && i < mostRemoved; i++ {
		if s.doOne(ctx, func(t tx) (err error) {
			rows, err = t.exec(`WITH old AS MATERIALIZED (SELECT id FROM audit
				WHERE made < (SELECT @now) - $1 ORDER BY made LIMIT $2 @skip)
				DELETE FROM audit WHERE id IN (SELECT id FROM old)`, keep.Milliseconds(),
				removedAtOnce)
			return err
		}) != nil {
			return
		}
	}
}

// Records calls one for each record of the audit trail from since to until (zero is none), the
// oldest first, of one user or, without a name, of all, until one returns an error.
func (s *Store) Records(ctx context.Context, user string, since, until time.Time,
	one func(Record) error) error {
	from, to, after := since.UnixMilli(), until.UnixMilli(), ""
	if since.IsZero() {
		from = 0
	}
	if until.IsZero() {
		to = 1<<63 - 1
	}
	for {
		var page []Record
		var n int
		var made int64
		var id string
		if err := s.doOne(ctx, func(t tx) error {
			page, n = nil, 0 // it may be another try
			var text string
			where, args := "", []any{from, after, to, recordsAtOnce}
			if user != "" {
				where, args = "AND (name = $5 OR name = '')", append(args, column(user))
			}
			return t.each(`SELECT made, id, record FROM audit WHERE made >= $1
				AND (made > $1 OR id > $2) AND made < $3 `+where+` ORDER BY made, id LIMIT $4`,
				args, []any{&made, &id, &text}, func() {
					var r Record
					// Lost records may be anybody's.
					if json.Unmarshal([]byte(text), &r) == nil &&
						(user == "" || r.User != "" || r.Count > 0) {
						r.Time = time.UnixMilli(made)
						page = append(page, r.exact())
					}
					n++
				})
		}); err != nil {
			return err
		}
		for _, r := range page {
			if err := one(r); err != nil {
				return err
			}
		}
		if n < recordsAtOnce {
			return nil
		}
		from, after = made, id
	}
}

// exact returns a record with its names as they were.
func (r Record) exact() Record {
	if r.PathBytes != nil {
		r.Path = string(r.PathBytes)
	}
	if r.ToBytes != nil {
		r.To = string(r.ToBytes)
	}
	return r
}
