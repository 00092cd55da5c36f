package outside

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
)

// LDAP is a directory. A password is checked by binding as the user (RFC 4513, section 5.1.3).
type LDAP struct {
	URLs     []string // tried in this order
	StartTLS bool
	TLS      *tls.Config // without a name

	// DN is the user's distinguished name, with {user} in it. If it is empty, the user is searched
	// for below Base with Filter, as SearchDN with SearchPassword, or anonymously.
	DN                       string
	SearchDN, SearchPassword string
	Base, Filter             string

	// Name is the attribute with the login name. The client must spell the name as it is there:
	// directories ignore case, but a user has one home.
	Name string

	// Groups are searched for below GroupBase with GroupFilter, which may have {dn} and {user} in
	// it. If GroupBase is empty, they are in the attribute memberOf. The user must be in one of
	// Require, unless that is empty.
	GroupBase, GroupFilter string
	Require                []string
}

// mostGroups is how many groups a user may be in below GroupBase. With more nothing is decided.
const mostGroups = 1000

// mostSaid limits the bytes of a directory's answer to one question, and deepest how deeply its
// messages are nested, of which 6 levels have a meaning (RFC 4511, appendix B). The library copies
// the contents at each level, and makes a hundred bytes of two.
const (
	mostSaid = 512 << 10
	deepest  = 16
)

func init() { ber.MaxPacketLengthBytes, ber.MaxNestingDepth = mostSaid, deepest }

// limitedConn fails after so many bytes were read from a directory, including TLS.
type limitedConn struct {
	net.Conn
	left int
	over atomic.Bool
}

var errSaid = fmt.Errorf("%w: the directory says more than %d bytes", ErrAnswered, mostSaid)

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.over.Store(true)
		return 0, errSaid
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// refusals are the results of a bind that say something about the user and not about the directory
// (RFC 4511, appendix A.2). Password policies use the last three, for locked accounts for example.
var refusals = []uint16{ldap.LDAPResultInvalidCredentials, ldap.LDAPResultNoSuchObject,
	ldap.LDAPResultInvalidDNSyntax, ldap.LDAPResultInappropriateAuthentication,
	ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultConstraintViolation,
	ldap.LDAPResultUnwillingToPerform}

// Check returns an error for a wrong configuration, as far as that shows without asking the
// directory. key names the setting.
func (l *LDAP) Check() (key string, err error) {
	for _, text := range l.URLs {
		u, err := url.Parse(text)
		switch {
		case err != nil, u.Scheme != "ldap" && u.Scheme != "ldaps" && u.Scheme != "ldapi",
			u.Host == "" && u.Scheme != "ldapi":
			return "urls", fmt.Errorf("%q is no directory: use ldaps://HOST or ldap://HOST", text)
		case u.Scheme == "ldap" && !l.StartTLS && !loopback(u.Hostname()):
			return "urls", fmt.Errorf("%s: passwords would cross the network in the clear: use"+
				" ldaps, or start_tls = true", text)
		}
	}
	if len(l.URLs) == 0 {
		return "urls", errors.New("a directory needs urls")
	}
	switch {
	case (l.DN == "") == (l.Base == ""):
		return "dn", errors.New("a directory needs dn, or base and filter to search for users")
	case l.DN != "" && !strings.Contains(l.DN, "{user}"):
		return "dn", fmt.Errorf("%q has no {user}: everybody would be the same", l.DN)
	case l.DN != "" && l.Filter != "":
		return "filter", errors.New("with dn nothing is searched")
	case l.Base != "" && !strings.Contains(l.Filter, "{user}"):
		return "filter", fmt.Errorf("%q has no {user}: it would find anybody", l.Filter)
	}
	for _, one := range [][2]string{{"dn", l.dn("x")}, {"search_dn", l.SearchDN}, {"base", l.Base},
		{"group_base", l.GroupBase}} {
		if _, err := ldap.ParseDN(one[1]); err != nil {
			return one[0], fmt.Errorf("%q is no distinguished name: %w", one[1], err)
		}
	}
	for _, name := range l.Require {
		if _, err := ldap.ParseDN(name); err != nil || name == "" {
			return "groups", fmt.Errorf("%q is no distinguished name", name)
		}
	}
	for _, one := range [][2]string{{"filter", filled(l.Filter, "x", "cn=x")},
		{"group_filter", filled(l.GroupFilter, "x", "cn=x")}} {
		if _, err := ldap.CompileFilter(one[1]); one[1] != "" && err != nil {
			return one[0], fmt.Errorf("%q is no filter: %w", one[1], err)
		}
	}
	return "", nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// dn returns the distinguished name of a user, escaped as RFC 4514, section 2.4, says.
func (l *LDAP) dn(user string) string {
	return strings.ReplaceAll(l.DN, "{user}", ldap.EscapeDN(user))
}

// filled puts values into a filter, escaped as RFC 4515, section 3, says. Both are replaced in one
// pass, since one value may contain the placeholder of the other.
func filled(filter, user, dn string) string {
	return strings.NewReplacer("{user}", ldap.EscapeFilter(user), "{dn}",
		ldap.EscapeFilter(dn)).Replace(filter)
}

// Ask implements [Source].
func (l *LDAP) Ask(ctx context.Context, q Question) (answer Answer, err error) {
	if q.Password == "" { // would succeed, as nobody
		return Answer{}, &Refusal{"the password is empty"}
	}
	var failed error
	for i, address := range l.URLs {
		part, cancel := share(ctx, len(l.URLs)-i)
		answer, err = l.ask(part, address, q)
		cancel()
		if _, refused := errors.AsType[*Refusal](err); err == nil || refused {
			return answer, err
		}
		failed = errors.Join(failed, fmt.Errorf("%s: %w", address, err))
	}
	return Answer{}, failed
}

// ask asks one of several directories with the same contents.
func (l *LDAP) ask(ctx context.Context, address string, q Question) (answer Answer, err error) {
	conn, raw, err := l.dial(ctx, address)
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	defer func() {
		if err != nil && raw.over.Load() { // the library keeps the text only
			err = errSaid
		}
	}()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if l.DN != "" {
		dn := l.dn(q.User)
		if err := bind(conn, dn, q.Password); err != nil {
			return Answer{}, err
		}
		entry, err := l.entry(conn, dn, ldap.ScopeBaseObject, "(objectClass=*)", q.User)
		if err != nil {
			return Answer{}, err
		}
		return l.groups(conn, entry, q.User)
	}
	if err := l.bindToSearch(conn); err != nil {
		return Answer{}, err
	}
	entry, err := l.entry(conn, l.Base, ldap.ScopeWholeSubtree, filled(l.Filter, q.User, ""),
		q.User)
	if err != nil {
		return Answer{}, err
	}
	answer, err = l.groups(conn, entry, q.User) // as the account that may see them
	if bound := bind(conn, entry.DN, q.Password); bound != nil {
		return Answer{}, bound
	}
	return answer, err
}

// share returns a context with part of the time that is left, so that a silent directory leaves
// some for the others.
func share(ctx context.Context, among int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(among))
}

// Reach returns an error unless all the directories answer.
func (l *LDAP) Reach(ctx context.Context) (failed error) {
	for i, address := range l.URLs {
		part, cancel := share(ctx, len(l.URLs)-i)
		conn, _, err := l.dial(part, address)
		if err == nil {
			err = l.bindToSearch(conn)
			conn.Close()
		}
		cancel()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", address, err))
		}
	}
	return failed
}

// Refuses reports whether an error of Reach is what a directory has answered, and will go on to, such
// as that the password is wrong.
func Refuses(err error) bool {
	if all, ok := err.(interface{ Unwrap() []error }); ok { // of several directories
		return slices.ContainsFunc(all.Unwrap(), Refuses)
	}
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return distrusted || ldap.IsErrorAnyOf(err, refusals...)
}

// bindToSearch binds as SearchDN, if there is one.
func (l *LDAP) bindToSearch(conn *ldap.Conn) error {
	if l.SearchDN == "" {
		return nil
	}
	if err := conn.Bind(l.SearchDN, l.SearchPassword); err != nil {
		return fmt.Errorf("binding as %s: %w", l.SearchDN, err)
	}
	return nil
}

func (l *LDAP) dial(ctx context.Context, address string) (*ldap.Conn, *limitedConn, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	config := &tls.Config{}
	if l.TLS != nil {
		config = l.TLS.Clone()
	}
	config.ServerName = u.Hostname()
	network, host, port := "tcp", u.Host, ldap.DefaultLdapPort
	switch {
	case u.Scheme == "ldapi":
		network, host = "unix", u.Path
		if strings.Trim(host, "/") == "" {
			host = "/var/run/slapd/ldapi"
		}
	case u.Scheme == "ldaps":
		port = ldap.DefaultLdapsPort
		fallthrough
	case u.Port() == "":
		host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, network, host)
	if err != nil {
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline()
	raw.SetDeadline(deadline)
	limited := &limitedConn{Conn: raw, left: mostSaid}
	raw = limited
	secured := u.Scheme == "ldaps" || u.Scheme == "ldap" && l.StartTLS
	if secured {
		secure := tls.Client(raw, config)
		if u.Scheme == "ldap" {
			err = startTLS(raw)
		}
		if err == nil {
			err = secure.HandshakeContext(ctx)
		}
		if err != nil {
			raw.Close()
			return nil, nil, err
		}
		raw = secure
	}
	conn := ldap.NewConn(raw, secured)
	conn.Start()
	if !deadline.IsZero() {
		conn.SetTimeout(max(time.Until(deadline), time.Millisecond))
	}
	return conn, limited, nil
}

// startTLS asks a directory for TLS (RFC 4511, section 4.14). The library's own, when the handshake
// fails, can wait as long again before it returns.
func startTLS(raw net.Conn) error {
	request := ber.Encode(ber.ClassUniversal, ber.TypeConstructed, ber.TagSequence, nil, "")
	request.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, 1,
		""))
	extended := ber.Encode(ber.ClassApplication, ber.TypeConstructed,
		ldap.ApplicationExtendedRequest, nil, "")
	extended.AppendChild(ber.NewString(ber.ClassContext, ber.TypePrimitive, 0,
		"1.3.6.1.4.1.1466.20037", ""))
	request.AppendChild(extended)
	if _, err := raw.Write(request.Bytes()); err != nil {
		return err
	}
	answer, err := ber.ReadPacket(raw) // and not a byte more: the next one is TLS's
	if err == nil {
		err = ldap.GetLDAPError(answer)
	}
	if err != nil {
		return fmt.Errorf("StartTLS: %w", err)
	}
	return nil
}

// bind tries a password.
func bind(conn *ldap.Conn, dn, password string) error {
	if dn == "" { // would be anonymous, and succeed: RFC 4513, section 5.1.2
		return &Refusal{"the user has no distinguished name"}
	}
	err := conn.Bind(dn, password)
	if ldap.IsErrorAnyOf(err, refusals...) {
		return &Refusal{fmt.Sprintf("the directory refuses %s: %s", dn, err)}
	}
	return err
}

// tooMany reports whether there were more entries than asked for, as the directory or the library
// says.
func tooMany(err error) bool {
	return ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) ||
		errors.Is(err, ldap.ErrSizeLimitExceeded)
}

// entry returns the entry of a user.
func (l *LDAP) entry(conn *ldap.Conn, base string, scope int, filter, user string) (*ldap.Entry,
	error) {
	found, err := conn.Search(&ldap.SearchRequest{BaseDN: base, Scope: scope, Filter: filter,
		SizeLimit: 2, EnforceSizeLimit: true, DerefAliases: ldap.NeverDerefAliases,
		Attributes: []string{l.Name, "memberOf"}})
	if tooMany(err) || err == nil && len(found.Entries) > 1 {
		return nil, fmt.Errorf("%w: the directory has several users for the name %q", ErrAnswered,
			user)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the user: %w", err)
	}
	if len(found.Entries) == 0 {
		return nil, &Refusal{fmt.Sprintf("the directory shows no user %q", user)}
	}
	entry := found.Entries[0]
	if names := entry.GetEqualFoldAttributeValues(l.Name); !slices.Contains(names, user) {
		return nil, &Refusal{fmt.Sprintf("%s of %s is %q, and not %q", l.Name, entry.DN, names,
			user)}
	}
	return entry, nil
}

// groups returns the user's groups, or a refusal if Require has none of them.
func (l *LDAP) groups(conn *ldap.Conn, entry *ldap.Entry, user string) (answer Answer, err error) {
	answer.Groups = entry.GetEqualFoldAttributeValues("memberOf")
	if l.GroupBase != "" {
		found, err := conn.Search(&ldap.SearchRequest{BaseDN: l.GroupBase,
			Scope: ldap.ScopeWholeSubtree, Filter: filled(l.GroupFilter, user, entry.DN),
			SizeLimit: mostGroups, EnforceSizeLimit: true, DerefAliases: ldap.NeverDerefAliases,
			Attributes: []string{"1.1"}}) // none
		if tooMany(err) {
			return Answer{}, fmt.Errorf("%w: %s is in more than %d groups", ErrAnswered, entry.DN,
				mostGroups)
		}
		if err != nil {
			return Answer{}, fmt.Errorf("looking for groups of the user: %w", err)
		}
		for _, group := range found.Entries {
			answer.Groups = append(answer.Groups, group.DN)
		}
	}
	if len(l.Require) > 0 && !slices.ContainsFunc(l.Require, answer.In) {
		return Answer{}, &Refusal{fmt.Sprintf("%s is in none of the groups that may log in",
			entry.DN)}
	}
	return answer, nil
}

// In reports whether a user is in a group, however its name is spelled.
func (a Answer) In(group string) bool {
	dn, err := ldap.ParseDN(group)
	return err == nil && slices.ContainsFunc(a.Groups, func(other string) bool {
		parsed, err := ldap.ParseDN(other)
		return err == nil && parsed.EqualFold(dn)
	})
}
