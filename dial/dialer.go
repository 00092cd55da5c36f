package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	own "github.com/usftp/usftp/internal/ssh"
)

// A Dialer makes connections to one target. It is safe for concurrent use.
type Dialer struct {
	target Target
	config *Config
	log    *slog.Logger
	asker  *asker
	s      *settings // nil with the system's ssh
	hop    *Dialer   // the last jump host, nil without one
	system *systemSSH
	proxy  *netProxy // nil without one
	memory *memory
	tcp    func(context.Context) (net.Conn, error) // how to reach the host directly

	buffers own.Buffers // shared by its connections

	mu           sync.Mutex
	masters      int         // live connections through the user's master
	beside       error       // why no login of our own is possible beside them without a person
	last         []step      // how the last login succeeded, nil before the first
	refused      refusals    // of a password that was right before
	first        *firstLogin // the first login, while it is under way
	likelyCalled bool        // Config.LoginLikely has been called
}

// maxHops limits a chain of jump hosts, which a configuration could make endless.
const maxHops = 16

// New resolves the configuration for t: it reads files and may run `ssh -G`, but does not connect.
// A nil config is valid. If the configuration asks for something that the native dialer cannot do,
// the error is an [*UnsupportedError].
func New(ctx context.Context, t Target, config *Config) (*Dialer, error) {
	if config == nil {
		config = new(Config)
	}
	return newDialer(ctx, t, config, newAsker(config), 0)
}

func newDialer(ctx context.Context, t Target, config *Config, a *asker,
	depth int) (*Dialer, error) {
	d := &Dialer{target: t, config: config, log: config.logger(), asker: a}
	d.tcp, d.memory = d.connectTCP, newMemory(config)
	fail := func(err error) (*Dialer, error) { return nil, &Error{Host: t.UserHost(), Err: err} }
	if err := t.check(); err != nil {
		return nil, err
	}
	if _, err := network(config.AddressFamily); err != nil {
		return fail(err)
	}
	if config.SSH != "" || config.Server != "" {
		if config.Proxy != "" {
			return fail(errors.New("the proxy is for connections of our own, not for those of another program"))
		}
		var err error
		if d.system, err = newSystemSSH(t, config); err != nil {
			return fail(err)
		}
		return d, nil
	}
	w, exact, err := resolve(ctx, t, config)
	if err != nil {
		return fail(err)
	}
	if err := checkSupport(w, exact, d.log); err != nil {
		return fail(err)
	}
	if d.s, err = readSettings(t, w, config); err != nil {
		return fail(err)
	}
	d.warnOfMissing()
	if d.s.proxyJump != "" {
		if d.hop, err = d.newHop(ctx, depth); err != nil {
			return fail(err)
		}
	} else if d.proxy, err = newNetProxy(config, d.s.host); err != nil {
		return fail(err)
	}
	if d.proxy != nil {
		d.s.trustLoopback = false // the other end of the socket is the proxy
	}
	return d, nil
}

// warnOfMissing warns, as ssh does, that an explicitly named key is missing: another key might let
// the user in unnoticed.
func (d *Dialer) warnOfMissing() {
	x := d.s.tokens()
	for _, f := range d.config.Identities {
		path, err := x.file(f)
		if err != nil {
			path = f
		}
		_, err = os.Stat(path)
		if err == nil {
			continue
		}
		if _, err := os.Stat(path + ".pub"); err == nil {
			continue // an agent may hold its other half
		}
		if why, ok := errors.AsType[*fs.PathError](err); ok && !errors.Is(err, fs.ErrNotExist) {
			d.log.Warn(fmt.Sprintf("the key %s is not offered: %v", path, why.Err))
			continue
		}
		d.log.Warn(fmt.Sprintf("the key %s does not exist and is not offered", path))
	}
}

// newHop returns the Dialer for the last host of ProxyJump, which goes through the hosts before it.
// As with ssh, a hop has its own configuration and gets no flag but -F, and the proxy.
func (d *Dialer) newHop(ctx context.Context, depth int) (*Dialer, error) {
	if depth++; depth > maxHops {
		return nil, fmt.Errorf("more than %d jump hosts; does a host jump through itself?", maxHops)
	}
	list, err := d.s.proxyTokens().expand(d.s.proxyJump)
	if err != nil {
		return nil, err
	}
	before, last := "", list
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		before, last = list[:i], list[i+1:]
	}
	t, err := parseHop(strings.TrimSpace(last))
	if err != nil {
		return nil, fmt.Errorf("ProxyJump: %w", err)
	}
	c := &Config{
		ConfigFile: d.config.ConfigFile, Jump: before, Prompter: d.config.Prompter,
		Banner: d.config.Banner, Logger: d.config.Logger, Env: d.config.Env,
		StateDir: d.config.StateDir, Proxy: d.config.Proxy,
		IgnoreInterrupts: d.config.IgnoreInterrupts, hop: true,
	}
	hop, err := newDialer(ctx, t, c, d.asker, depth)
	if err != nil {
		return nil, jumpError(t.UserHost(), err)
	}
	// With ssh, the host's ConnectTimeout ends the wait for a silent hop, too.
	limit := d.s.connectTimeout
	for h := hop; limit != 0 && h != nil; h = h.hop {
		h.s.connectTimeout = min(limit, cmp.Or(h.s.connectTimeout, limit))
	}
	return hop, nil
}

// parseHop reads one host of ProxyJump: [user@]host[:port], or ssh://.
func parseHop(s string) (Target, error) {
	if rest, ok := strings.CutPrefix(s, "ssh://"); ok {
		return ParseHost("sftp://" + rest)
	}
	port := 0
	// A port follows the last colon, unless the colon is an unbracketed address's own.
	if i := strings.LastIndexByte(s, ':'); i >= 0 &&
		(s[i-min(i, 1)] == ']' || strings.Count(s, ":") == 1) {
		p, err := parsePort(s[i+1:])
		if err != nil {
			return Target{}, err
		}
		s, port = s[:i], p
	}
	t, err := parseUserHost(s)
	t.Port = port
	return t, err
}

// jumpError names the hop that failed. An error from a hop behind it already names that hop.
func jumpError(hop string, err error) error {
	if deeper, ok := errors.AsType[*JumpError](err); ok {
		return deeper
	}
	if e, ok := errors.AsType[*Error](err); ok {
		err = e.Err
	}
	return &JumpError{Hop: hop, Err: err}
}

// host returns the target's name for messages: "user@host" as it was given.
func (d *Dialer) host() string { return d.target.UserHost() }

// NeedsPerson reports whether each login needs a person, to touch a token or type a one-time code,
// so that one connection must do. It is known once a first [Dialer.Dial] has succeeded. The
// system's ssh needs a person unless BatchMode is set, since answers typed there cannot be kept.
func (d *Dialer) NeedsPerson() bool {
	if d.system != nil {
		return !d.system.batch
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.beside != nil { // a login without a person has failed
		return true
	}
	return needPerson(d.last) || d.hop != nil && d.hop.NeedsPerson()
}

// Dial connects and logs in once. After a login has succeeded, later logins offer only credentials
// that worked then. Logins that run beside the first wait for it before they offer anything, and
// fail if each login needs a person. With the system's ssh nothing happens yet: each [Conn.Open]
// starts one. Errors are of type [*Error].
func (d *Dialer) Dial(ctx context.Context) (*Conn, error) {
	if d.system != nil {
		return newSystemConn(d), nil
	}
	c, err := d.dial(ctx, true, false)
	if err != nil {
		return nil, &Error{Host: d.host(), Err: causeOf(ctx, err)}
	}
	return c, nil
}

// dial connects and logs in. If session is true it is for SFTP, otherwise only to reach the next
// host. alone means that nobody may be asked for anything.
func (d *Dialer) dial(ctx context.Context, session, alone bool) (*Conn, error) {
	d.mu.Lock()
	mastered, cannot := d.masters > 0, d.beside
	d.mu.Unlock()
	if !mastered {
		if c := d.throughMaster(ctx, session); c != nil {
			return c, nil
		}
		return d.ownLogin(d.newLogin(ctx, session, alone))
	}
	// One connection goes through the master. Further ones are for speed, and must not ask a
	// person for anything.
	if cannot == nil {
		c, err := d.ownLogin(d.newLogin(ctx, session, true))
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		_, refused := errors.AsType[*AuthError](err)
		_, unknown := errors.AsType[*HostKeyError](err)
		if cannot = err; refused || unknown {
			cannot = fmt.Errorf("%w: %w", errMasterOnly, err)
			d.mu.Lock()
			d.beside = cannot // another attempt would be another failed login
			d.mu.Unlock()
		}
	}
	if !session {
		if c := d.throughMaster(ctx, session); c != nil {
			return c, nil
		}
	}
	return nil, cannot
}

func (d *Dialer) newLogin(ctx context.Context, session, alone bool) *login {
	l := &login{ctx: ctx, d: d, s: d.s, alone: alone, flight: flight{session: session}}
	if alone {
		l.s = d.s.beside()
	}
	return l
}

func (d *Dialer) ownLogin(l *login) (*Conn, error) {
	if err := d.mayTry(); err != nil {
		return nil, err
	}
	d.begin(l)
	c, err := d.logIn(l)
	if again := l.retry(err); again != nil {
		c, err = d.logIn(again)
		again.learn(l, err)
		l = again
	} else {
		l.learn(nil, err)
	}
	d.decide(l, err)
	if err != nil {
		return nil, err
	}
	l.loginLikely()
	return c, nil
}

// droppedTries is how often a login is repeated after the server hung up before showing its key:
// sshd does so at random while many others log in (MaxStartups), and when it restarts. By then
// nobody has been asked for anything, and nothing counts as a failed login.
const droppedTries = 3

// logIn connects and logs in.
func (d *Dialer) logIn(l *login) (*Conn, error) {
	for try := 0; ; try++ {
		sniff := new(sniffer)
		c, err := d.tryLogIn(l, sniff)
		if err == nil || try == droppedTries || !l.dropped(sniff, err) {
			return c, err
		}
		wait := time.Second << try
		wait = wait/2 + rand.N(wait/2) // so that clients do not all come back at once
		d.log.Info("trying again", "host", d.s.alias, "error", err, "in", wait)
		select {
		case <-time.After(wait):
		case <-l.ctx.Done():
			return nil, err
		}
	}
}

// dropped reports whether the server hung up before showing its key, as an overloaded one does.
// Behind a jump host there is no second try if the jump host itself failed, or would need a person
// again.
func (l *login) dropped(sniff *sniffer, err error) bool {
	_, hopFailed := errors.AsType[*JumpError](err)
	if !l.direct && (l.d.hop == nil || hopFailed || l.d.hop.NeedsPerson()) {
		return false
	}
	text := sniff.text()
	return l.hostKey == nil && l.ctx.Err() == nil && l.watch.expired() == nil &&
		connectionEnded(l.raw) && !disconnected(l.raw) &&
		(text == "" || text == tooBusy)
}

func (d *Dialer) tryLogIn(l *login, sniff *sniffer) (*Conn, error) {
	l.watch = &watchdog{limit: cmp.Or(d.s.connectTimeout, loginStall), doing: "connecting"}
	sniff.notSSH = func() { l.watch.shorten(notSSHWait) }
	began := time.Now()
	route, err := d.connect(l, sniff)
	if err != nil {
		return nil, err
	}
	if l.direct = route.jump == nil && route.proxy == nil && !route.proxied; l.direct {
		l.recordRoundTrip(time.Since(began), 1) // TCP's handshake
	}
	t, first, err := l.run(route, sniff)
	if err != nil {
		err = route.explain(err)
		route.close()
		return nil, err
	}
	c := newConn(d, t, route, l.hostKey)
	c.roundTrip, c.first = l.roundTrip, first
	if version := c.ServerVersion(); !strings.Contains(version, "OpenSSH") &&
		!strings.HasPrefix(version, "SSH-2.0-usftp") {
		route.conn.ackAtOnce()
	}
	return c, nil
}

// A route leads to a server: a socket, a channel through a jump host, or a ProxyCommand's pipes.
type route struct {
	conn    *socket
	jump    *Conn
	proxy   *proxyConn
	proxied bool // the socket leads to the proxy

	compressed *own.Compressed // measures compression; nil if not wanted
}

// socket returns the socket that leads out of this machine. Closing a channel through a jump host
// would wait for the jump host to confirm it, so the whole connection to the jump host is closed.
// Nothing else uses it.
func (r *route) socket() *socket {
	for r.jump != nil {
		r = r.jump.route
	}
	return r.conn
}

// cut abandons the connection: it ends all reads and writes at once, and discards unsent data.
func (r *route) cut() { r.socket().reset() }

func (r *route) close() {
	r.socket().Close()
	if r.jump != nil {
		r.jump.Close()
	}
	r.conn.Close()
}

// explain adds the output of a failed ProxyCommand.
func (r *route) explain(err error) error {
	if r.proxy == nil {
		return err
	}
	not, ok := errors.AsType[*NotSSHError](err)
	if !ok || not.Text != "" {
		return err
	}
	if not.Text = r.conn.sniff.text(); not.Text != "" {
		return err
	}
	return r.proxy.failure()
}

// connect makes a connection.
func (d *Dialer) connect(l *login, sniff *sniffer) (*route, error) {
	ctx := l.ctx
	switch {
	case d.hop != nil:
		return d.connectJump(ctx, l.alone, sniff)
	case d.proxy != nil:
		if d.s.proxyCommand != "" {
			d.log.Info("the ProxyCommand is not used, since a proxy was named", "host", d.s.alias)
		}
		return d.connectProxy(ctx, sniff)
	case d.s.proxyCommand != "":
		command, err := d.s.proxyTokens().expand(d.s.proxyCommand)
		if err != nil {
			return nil, err
		}
		p, err := startProxy(command, d.config, l.proxySays())
		if err != nil {
			return nil, err
		}
		return &route{conn: newSocket(p, sniff), proxy: p}, nil
	}
	conn, err := d.tcp(ctx)
	if err != nil {
		return nil, err
	}
	return &route{conn: newSocket(conn, sniff)}, nil
}

// proxySays returns a function that shows a line of the ProxyCommand's standard error, as ssh does:
// it may tell a person to log in with a browser, or to touch a token. Further connections would say
// the same again.
func (l *login) proxySays() func(line string) {
	level := slog.LevelInfo
	if l.first != nil {
		level = slog.LevelWarn
	}
	return func(line string) { l.d.log.Log(context.Background(), level, "ProxyCommand: "+line) }
}

func (d *Dialer) connectTCP(ctx context.Context) (net.Conn, error) {
	return d.connectTo(ctx, d.s.address())
}

// connectTo connects to an address as the settings demand.
func (d *Dialer) connectTo(ctx context.Context, address string) (net.Conn, error) {
	nd := &net.Dialer{Timeout: d.s.connectTimeout}
	// As OpenSSH: keepalive on, at the times the system has set. NODELAY is Go's default.
	nd.KeepAliveConfig = net.KeepAliveConfig{Enable: d.s.tcpKeepAlive, Idle: -1, Interval: -1,
		Count: -1}
	if !d.s.tcpKeepAlive {
		nd.KeepAlive = -1
	}
	local, err := d.s.localAddresses(ctx)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		conn, err := d.dialFrom(ctx, nd, local, address)
		if err == nil || attempt >= d.s.attempts || ctx.Err() != nil {
			return conn, err
		}
		d.log.Info("trying again", "host", d.s.alias, "error", err)
		select { // ConnectionAttempts: "one per second"
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// dialFrom connects from one of several addresses, if any: the first of IPv4's or, if the host has
// none such, the first of IPv6's.
func (d *Dialer) dialFrom(ctx context.Context, nd *net.Dialer, local []net.IPAddr,
	address string) (net.Conn, error) {
	for _, six := range []bool{false, true} {
		i := slices.IndexFunc(local, func(a net.IPAddr) bool { return (a.IP.To4() == nil) == six })
		if i < 0 {
			continue
		}
		nd.LocalAddr = &net.TCPAddr{IP: local[i].IP, Zone: local[i].Zone}
		conn, err := d.dialName(ctx, nd, address)
		if _, unfit := errors.AsType[*net.AddrError](err); !unfit {
			return conn, err
		}
	}
	return d.dialName(ctx, nd, address)
}

// localAddresses returns the addresses from which to connect, none if it does not matter. As in ssh,
// BindInterface comes first, and on it the addresses that lead farthest.
func (s *settings) localAddresses(ctx context.Context) ([]net.IPAddr, error) {
	switch {
	case s.bindInterface != "":
	case s.bindAddress == "":
		return nil, nil
	default:
		local, err := net.DefaultResolver.LookupIPAddr(ctx, s.bindAddress)
		if err != nil {
			return nil, fmt.Errorf("BindAddress: %w", err)
		}
		return local, nil
	}
	var has []net.Addr
	i, err := net.InterfaceByName(s.bindInterface)
	if err == nil {
		has, err = i.Addrs()
	}
	if err == nil && len(has) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, fmt.Errorf("BindInterface %s: %w", s.bindInterface, err)
	}
	var far, near []net.IPAddr
	for _, a := range has {
		switch n, ok := a.(*net.IPNet); {
		case !ok:
		case n.IP.IsGlobalUnicast():
			far = append(far, net.IPAddr{IP: n.IP})
		case n.IP.IsLinkLocalUnicast():
			near = append(near, net.IPAddr{IP: n.IP, Zone: i.Name})
		default:
			near = append(near, net.IPAddr{IP: n.IP})
		}
	}
	return append(far, near...), nil
}

// jumpStall is how long a jump host may take to connect to the next host if there is no
// ConnectTimeout. Its kernel gives up on an address after about two minutes, and the host may have
// several.
const jumpStall = 5 * time.Minute

func (d *Dialer) connectJump(ctx context.Context, alone bool, sniff *sniffer) (*route, error) {
	jump, err := d.hop.dial(ctx, false, alone)
	if err != nil {
		return nil, jumpError(d.hop.host(), causeOf(ctx, err))
	}
	conn, err := jump.reach(ctx, d.s.host, d.s.port, cmp.Or(d.s.connectTimeout, jumpStall))
	if err != nil {
		jump.Close()
		if refused, ok := errors.AsType[*refusedError](err); ok {
			err = fmt.Errorf("cannot reach %s: %w",
				d.s.address(), refused)
		}
		return nil, jumpError(d.hop.host(), err)
	}
	return &route{conn: newSocket(conn, sniff), jump: jump}, nil
}
