// Package status shows the state of a service, on a page and as JSON, and takes an administrator's
// orders.
package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/store"
)

// Status is the whole status. docs/status.md describes its fields.
type Status struct {
	Node     string        `json:"node"` // the one that answers
	Time     time.Time     `json:"time"`
	Problems []string      `json:"problems,omitempty"` // why something is missing
	Nodes    []Node        `json:"nodes"`
	Users    []User        `json:"users"`
	MoreOf   More          `json:"more"`
	Bans     []Ban         `json:"bans"`
	Hooks    []Hook        `json:"hooks"`
	Dead     []DeadMessage `json:"dead"`
}

// More counts the entries that are not listed.
type More struct {
	Users int `json:"users,omitempty"`
	Bans  int `json:"bans,omitempty"`
	Dead  int `json:"dead,omitempty"`
}

// A Node is the status of a node.
type Node struct {
	Node          string     `json:"node"`
	Seen          float64    `json:"seen_seconds_ago"`
	Started       time.Time  `json:"started"`
	Read          float64    `json:"read_bytes_per_second"`
	Written       float64    `json:"written_bytes_per_second"`
	Connections   int        `json:"connections"`
	Sessions      int        `json:"sessions"`
	Logins        []Login    `json:"logins"`
	MoreLogins    int        `json:"more_logins,omitempty"`
	Transfers     []Transfer `json:"transfers"`
	MoreTransfers int        `json:"more_transfers,omitempty"`
	Failures      []Failure  `json:"failures"`
	Outsiders     []User     `json:"outsiders,omitempty"`
	MoreOutsiders int        `json:"more_outsiders,omitempty"`
}

// A Login is a connection that has logged in.
type Login struct {
	ID       uint64    `json:"id"`
	User     string    `json:"user"`
	Remote   string    `json:"remote"`
	Client   string    `json:"client"`
	Method   string    `json:"method"`
	Key      string    `json:"key,omitempty"`
	Since    time.Time `json:"since"`
	Sessions int       `json:"sessions"`
}

// A User may log in, or could if not disabled.
type User struct {
	Name     string `json:"name"`
	Root     string `json:"root"`
	Group    string `json:"group,omitempty"`
	Stored   bool   `json:"stored"`            // in the store, and not in the configuration
	Outside  bool   `json:"outside,omitempty"` // in no list
	Disabled bool   `json:"disabled"`
	Bytes    int64  `json:"bytes"` // used of a quota; 0 if there is none, or it is not counted yet
	Files    int64  `json:"files"`
	MaxBytes int64  `json:"max_bytes,omitempty"`
	MaxFiles int64  `json:"max_files,omitempty"`

	// of the transfer quotas of this period
	Sent       int64 `json:"sent_bytes,omitempty"`
	Fetched    int64 `json:"fetched_bytes,omitempty"`
	MaxSent    int64 `json:"max_sent_bytes,omitempty"`
	MaxFetched int64 `json:"max_fetched_bytes,omitempty"`
}

// A Ban keeps an address out, or the passwords of one user from that address.
type Ban struct {
	Network string  `json:"network"`
	User    string  `json:"user,omitempty"`
	Left    float64 `json:"seconds_left"`
}

// A Hook says how many events wait for a hook, and how many were given up.
type Hook struct {
	Name    string `json:"name"`
	Waiting int64  `json:"waiting"`
	Dead    int64  `json:"dead"`
}

// A DeadMessage is an event that a hook could not be told of.
type DeadMessage struct {
	ID    string    `json:"id"`
	Hook  string    `json:"hook"`
	Time  time.Time `json:"time"`
	Kind  string    `json:"kind"`
	User  string    `json:"user"`
	Path  string    `json:"path"`
	Tries int       `json:"tries"`
	Error string    `json:"error"`
}

// Source has the sources of the data that a board shows.
type Source struct {
	Store     *store.Store // may be nil
	Log       *slog.Logger
	Tracker   *Tracker
	Logins    func() []sshd.Login
	EndLogins func(end func(sshd.Login) bool) int
	Users     func() []User // users in lists
	Outsiders func() []User // others who have logged in here

	// Outsider reports whether a name may belong to a user in no list.
	Outsider func(name string) bool

	Hooks []string // names of hooks that are told of events

	// Done is called with an administrator's action, the address it came from, and the user it was
	// done to, if any.
	Done func(remote, what, user string, err error)
}

// A Board knows the status, and takes orders.
type Board struct {
	Source
	node    string
	started time.Time
	history history

	mu     sync.Mutex
	made   time.Time
	known  *Status
	warned time.Time
	wrong  int // tokens since then
}

// NewBoard returns a board. Only the Store of the source may be nil.
func NewBoard(source Source) *Board {
	b := &Board{Source: source, node: "this node", started: time.Now()}
	if b.Store != nil {
		b.node = b.Store.Node()
	}
	return b
}

// Run measures rates, records the history and tells the other nodes, until ctx ends.
func (b *Board) Run(ctx context.Context) {
	if b.Store != nil {
		b.Store.Tell(b.tell, b.obey)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 0; ; n++ {
		b.Tracker.look(time.Now())
		if n%int(sampled/time.Second) == 0 {
			b.sample(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (b *Board) sample(ctx context.Context) {
	nodes, _ := b.nodes(ctx)
	var s sample
	for _, n := range nodes {
		s.read, s.written = s.read+float32(n.Read), s.written+float32(n.Written)
		s.sessions += float32(n.Sessions)
	}
	b.history.add(s)
}

// this returns the status of this node.
func (b *Board) this() Node {
	n := Node{Node: b.node, Started: b.started, Logins: []Login{}, Transfers: []Transfer{},
		Failures: []Failure{}}
	for _, l := range b.Logins() {
		n.Connections, n.Sessions = n.Connections+1, n.Sessions+l.Sessions
		if len(n.Logins) == mostShown {
			n.MoreLogins++
			continue
		}
		n.Logins = append(n.Logins, Login{l.ID, cut(l.User, longestText), l.Remote,
			cut(l.Client, longestText), l.Method, l.Key, l.Since, l.Sessions})
	}
	n.Outsiders = b.outsiders()
	n.MoreOutsiders = max(len(n.Outsiders)-mostShown, 0)
	n.Outsiders = n.Outsiders[:len(n.Outsiders)-n.MoreOutsiders]
	transfers, more := b.Tracker.Transfers()
	n.Transfers, n.MoreTransfers = append(n.Transfers, transfers...), more
	n.Failures = append(n.Failures, b.Tracker.Failures()...)
	n.Read, n.Written = b.Tracker.Rates()
	return n
}

// outsiders returns the users in no list who are logged in here, and then others who have used some
// of a quota.
func (b *Board) outsiders() (all []User) {
	here := map[string]bool{}
	for _, l := range b.Logins() {
		here[l.User] = true
	}
	for _, u := range b.Outsiders() {
		if here[u.Name] || u.Bytes > 0 || u.Files > 0 || u.Sent > 0 || u.Fetched > 0 {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b User) int {
		switch {
		case here[a.Name] == here[b.Name]:
			return cmp.Compare(a.Name, b.Name)
		case here[a.Name]:
			return -1
		}
		return 1
	})
	return all
}

// tell returns this as text, for the other nodes.
func (b *Board) tell() string {
	text, err := json.Marshal(b.this())
	if err != nil { // it has nothing that fails
		return "{}"
	}
	return string(text)
}

// nodes returns the status of each node, this one first.
func (b *Board) nodes(ctx context.Context) (all []Node, err error) {
	all = []Node{b.this()}
	if b.Store == nil {
		return all, nil
	}
	others, err := b.Store.Statuses(ctx)
	for _, other := range others {
		var n Node
		if other.Node == b.node || json.Unmarshal([]byte(other.Text), &n) != nil {
			continue
		}
		n.Node, n.Seen = other.Node, other.Seen.Seconds()
		all = append(all, n)
	}
	return all, err
}

// fresh is how long a status is shown again, so that many viewers cost no more than one.
const fresh = time.Second

// Status returns the current status. The caller must not change it.
func (b *Board) Status(ctx context.Context) *Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil || time.Since(b.made) > fresh {
		b.known, b.made = b.status(context.WithoutCancel(ctx)), time.Now()
	}
	return b.known
}

// wrongToken logs a wrong token, at most once a minute.
func (b *Board) wrongToken(remote string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wrong++; time.Since(b.warned) > time.Minute {
		b.Log.Warn("a wrong token for the status page", "remote", remote, "count", b.wrong)
		b.warned, b.wrong = time.Now(), 0
	}
}

// stale makes the next call of Status collect everything again.
func (b *Board) stale() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = nil
}

// allUsers returns the users in lists, and the users in no list that nodes report.
func (b *Board) allUsers(nodes []Node) []User {
	all, at := append([]User{}, b.Users()...), map[string]int{}
	for i, u := range all {
		at[u.Name] = i
	}
	for _, n := range nodes {
		for _, u := range n.Outsiders {
			i, known := at[u.Name]
			switch {
			case !known:
				at[u.Name] = len(all)
				all = append(all, u)
			case all[i].Outside && all[i].Disabled: // the list has only that
				u.Stored, u.Disabled = true, true
				all[i] = u
			}
		}
	}
	return all
}

// mostListed is how many users, and how many bans, are listed.
const mostListed = 1000

func (b *Board) status(ctx context.Context) *Status {
	s := &Status{Node: b.node, Time: time.Now().UTC(), Bans: []Ban{}, Hooks: []Hook{},
		Dead: []DeadMessage{}}
	wrong := func(what string, err error) {
		if err != nil {
			s.Problems = append(s.Problems, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var err error
	s.Nodes, err = b.nodes(ctx)
	wrong("other nodes are not shown", err)
	s.Users = b.allUsers(s.Nodes)
	slices.SortFunc(s.Users, func(a, b User) int { return cmp.Compare(a.Name, b.Name) })
	s.MoreOf.Users = max(len(s.Users)-mostListed, 0)
	s.Users = s.Users[:len(s.Users)-s.MoreOf.Users]
	for _, n := range s.Nodes {
		s.MoreOf.Users += n.MoreOutsiders
	}
	if b.Store == nil {
		return s
	}
	bans, err := b.Store.Bans().List(ctx)
	wrong("bans are not shown", err)
	s.MoreOf.Bans = max(len(bans)-mostListed, 0)
	for _, ban := range bans[:len(bans)-s.MoreOf.Bans] {
		s.Bans = append(s.Bans, Ban{ban.Network.String(), ban.User, ban.Left.Seconds()})
	}
	dead, count, err := b.Store.LatestDead(ctx, mostShown)
	wrong("dead letters are not shown", err)
	names, waiting := map[string]bool{}, b.Store.Waiting()
	for _, name := range b.Hooks {
		names[name] = true
	}
	for name := range waiting {
		names[name] = true
	}
	for name, n := range count {
		names[name] = true
		s.MoreOf.Dead += int(n)
	}
	s.MoreOf.Dead -= len(dead)
	for name := range names {
		s.Hooks = append(s.Hooks, Hook{name, waiting[name], count[name]})
	}
	slices.SortFunc(s.Hooks, func(a, b Hook) int { return cmp.Compare(a.Name, b.Name) })
	for _, m := range dead {
		var e hooks.Event
		json.Unmarshal([]byte(m.Event), &e)
		s.Dead = append(s.Dead, DeadMessage{m.ID, m.Hook, e.Time, string(e.Kind), e.User, e.Path,
			m.Tries, m.Error})
	}
	return s
}

// An order tells a node which login to end, in JSON.
type order struct {
	End uint64 `json:"end"` // its ID
}

// obey carries out an order from another node.
func (b *Board) obey(text string) {
	var o order
	if json.Unmarshal([]byte(text), &o) == nil {
		b.end(o.End)
	}
}

// end ends a login on this node, and reports whether there was one.
func (b *Board) end(id uint64) bool {
	return id != 0 && b.EndLogins(func(l sshd.Login) bool { return l.ID == id }) > 0
}

var (
	// ErrNotThere is matched by the errors of orders about something that does not exist.
	ErrNotThere = errors.New("not found")

	errNoStore = errors.New("there is no store")
)

// userOf returns the user of a login, or "" if it is not known.
func (b *Board) userOf(ctx context.Context, node string, id uint64) string {
	for _, n := range b.Status(ctx).Nodes {
		for _, l := range n.Logins {
			if n.Node == node && l.ID == id {
				return l.User
			}
		}
	}
	return ""
}

// EndLogin ends a login on a node.
func (b *Board) EndLogin(ctx context.Context, node string, id uint64) error {
	if node == b.node {
		if !b.end(id) {
			return fmt.Errorf("session %d: %w", id, ErrNotThere)
		}
		return nil
	}
	if b.Store == nil || node == "" {
		return fmt.Errorf("node %q: %w", node, ErrNotThere)
	}
	text, _ := json.Marshal(order{End: id})
	there, err := b.Store.Order(ctx, node, string(text))
	if err == nil && !there {
		err = fmt.Errorf("node %q: %w", node, ErrNotThere)
	}
	return err
}

// LiftBan lifts the ban of an address, with the bans of users there, or of a user there.
func (b *Board) LiftBan(ctx context.Context, network, user string) error {
	if b.Store == nil {
		return errNoStore
	}
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		address, wrong := netip.ParseAddr(network)
		if wrong != nil {
			return fmt.Errorf("%q is neither an address nor a network such as 192.0.2.7/32",
				network)
		}
		prefix = sshd.Network(address)
	}
	was, err := b.Store.Bans().Lift(ctx, sshd.Source{Network: prefix.Masked(), User: user})
	if err == nil && !was {
		err = fmt.Errorf("a ban of %s: %w", network, ErrNotThere)
	}
	return err
}

// DisableUser disables a user of the store or from outside, which ends their sessions; or enables
// them again.
func (b *Board) DisableUser(ctx context.Context, name string, disabled bool) error {
	if b.Store == nil {
		return errNoStore
	}
	err := store.ErrNoUser
	switch inFile := func(u User) bool { return u.Name == name && !u.Stored }; {
	case slices.ContainsFunc(b.Users(), inFile): // which has precedence
	case disabled:
		err = b.Store.DisableUser(ctx, name, b.Outsider(name))
	default:
		err = b.Store.EnableUser(ctx, name)
	}
	if errors.Is(err, store.ErrNoUser) {
		return fmt.Errorf("user %q: %w in the store; users of the configuration file are changed "+
			"there", name, ErrNotThere)
	}
	return err
}

// Replay makes dead letters wait for delivery again: all of a hook, or the one with an ID.
func (b *Board) Replay(ctx context.Context, hookOrID string) error {
	if b.Store == nil {
		return errNoStore
	}
	_, err := b.Store.Replay(ctx, hookOrID)
	if errors.Is(err, store.ErrNoLetter) {
		err = fmt.Errorf("a dead letter of %q: %w", strings.ToValidUTF8(hookOrID, "?"), ErrNotThere)
	}
	return err
}
