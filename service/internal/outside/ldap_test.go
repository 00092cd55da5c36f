package outside

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/usftp/usftp/service/internal/outside/slapdtest"
)

// directories returns the ways of asking one directory.
func directories(t *testing.T, s *slapdtest.Slapd) map[string]*LDAP {
	t.Helper()
	pem, err := os.ReadFile(s.CA)
	if err != nil {
		t.Fatal(err)
	}
	trust := &tls.Config{RootCAs: x509.NewCertPool()}
	trust.RootCAs.AppendCertsFromPEM(pem)
	dn := LDAP{URLs: []string{"ldaps://" + s.TLS}, TLS: trust, Name: "uid",
		DN: "uid={user}," + slapdtest.People}
	search := dn
	search.DN, search.Base, search.Filter = "", slapdtest.Base,
		"(&(objectClass=inetOrgPerson)(uid={user}))"
	search.SearchDN, search.SearchPassword = slapdtest.Search, slapdtest.SearchWord
	starts := search
	starts.URLs, starts.StartTLS = []string{"ldap://" + s.Plain}, true
	return map[string]*LDAP{"by name": &dn, "by search": &search, "after StartTLS": &starts}
}

func refused(err error) bool {
	_, is := errors.AsType[*Refusal](err)
	return is
}

// TestLDAP: a user with the right password is let in, and nobody else: not without a password,
// which this directory takes for an anonymous bind that succeeds, and not by a name that would be
// another's, or anybody's, if it was not escaped.
func TestLDAP(t *testing.T) {
	t.Parallel()
	s := slapdtest.Start(t, "ann", "bob", `x\2cy`)
	for how, l := range directories(t, s) {
		if key, err := l.Check(); err != nil {
			t.Errorf("%s: %s: %v", how, key, err)
		}
		ask := func(user, password string) (Answer, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return l.Ask(ctx, Question{User: user, Password: password})
		}
		if _, err := ask("ann", "ann secret"); err != nil {
			t.Errorf("%s: %v", how, err)
		}
		for _, c := range [][2]string{{"ann", "bob secret"}, {"ann", ""}, {"nobody", "ann secret"},
			{"Ann", "ann secret"}, {"ANN", "ann secret"}, {"*", "ann secret"}, {"a*", "ann secret"},
			{"nobody", ""}, {"ann)(uid=*", "ann secret"}, {"*)(uid=ann", "ann secret"}, {"", "x"},
			{"ann," + slapdtest.People, "ann secret"}, {"ann+cn=ann", "ann secret"},
			{" ann", "ann secret"}, {"ann\x00", "ann secret"}, {"{user}", "ann secret"},
			{`\61nn`, "ann secret"}, {"ann", "ann secret\x00"}, {strings.Repeat("a", 1000), "x"}} {
			if answer, err := ask(c[0], c[1]); !refused(err) {
				t.Errorf("%s: %q with %q: %v, %v", how, c[0], c[1], answer, err)
			}
		}
		l.GroupBase, l.GroupFilter = slapdtest.Groups, "(member={dn})"
		l.Require = []string{"CN=Partners, OU=groups, DC=example, DC=com"}
		if answer, err := ask("ann", "ann secret"); err != nil || !answer.In(slapdtest.Partners) ||
			answer.In("cn=others,"+slapdtest.Groups) {
			t.Errorf("%s: a partner: %v, %v", how, answer, err)
		}
		if _, err := ask("bob", "bob secret"); !refused(err) {
			t.Errorf("%s: one who is no partner: %v", how, err)
		}
		if _, err := ask("ann", "bob secret"); !refused(err) {
			t.Errorf("%s: a partner with another's password: %v", how, err)
		}
	}
}

// TestLDAPThatFails: what says nothing about the user is no refusal, and lets nobody in.
func TestLDAPThatFails(t *testing.T) {
	t.Parallel()
	s := slapdtest.Start(t, "ann", "bob")
	for what, spoil := range map[string]func(l *LDAP){
		"an unknown authority": func(l *LDAP) { l.TLS = &tls.Config{RootCAs: x509.NewCertPool()} },
		"another's name": func(l *LDAP) {
			l.URLs[0] = strings.Replace(l.URLs[0], "127.0.0.1", "localhost", 1)
		},
		"StartTLS with TLS's port": func(l *LDAP) {
			l.URLs, l.StartTLS = []string{"ldap://" + s.TLS}, true
		},
		"the searcher's password": func(l *LDAP) { l.SearchPassword = "wrong" },
		"nobody who may search": func(l *LDAP) {
			l.GroupBase, l.GroupFilter = "dc=elsewhere", "(cn=x)"
		},
		"several users": func(l *LDAP) { l.Filter = "(|(uid={user})(objectClass=inetOrgPerson))" },
		"no base":       func(l *LDAP) { l.Base = "ou=nowhere,dc=else" },
	} {
		l := directories(t, s)["by search"]
		spoil(l)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answer, err := l.Ask(ctx, Question{User: "ann", Password: "ann secret"})
		cancel()
		if err == nil || refused(err) {
			t.Errorf("%s: %v, %v", what, answer, err)
		}
	}
	l := directories(t, s)["by search"]
	l.URLs = append([]string{"ldaps://127.0.0.1:1"}, l.URLs...)
	if _, err := l.Ask(t.Context(), Question{User: "ann", Password: "ann secret"}); err != nil {
		t.Errorf("the second of two directories: %v", err)
	}
}

// TestNamesInLDAP: a name stays a value, whatever it has in it.
func TestNamesInLDAP(t *testing.T) {
	t.Parallel()
	l := &LDAP{DN: "uid={user},ou=people"}
	for name, want := range map[string]string{
		"a,ou=x": `uid=a\,ou=x,ou=people`, "a+b": `uid=a\+b,ou=people`, "#a": `uid=\#a,ou=people`,
		" a ": `uid=\ a\ ,ou=people`, `a\`: `uid=a\\,ou=people`, "a\x00": `uid=a\00,ou=people`,
	} {
		if dn := l.dn(name); dn != want {
			t.Errorf("%q becomes %s", name, dn)
		}
		parsed, err := ldap.ParseDN(l.dn(name))
		if err != nil || len(parsed.RDNs) != 2 || parsed.RDNs[0].Attributes[0].Value != name {
			t.Errorf("%q is read as %v, %v", name, parsed, err)
		}
	}
	if got := filled("(|(uid={user})(member={dn}))", "{dn})(*", "cn={user}\\"); got !=
		`(|(uid={dn}\29\28\2a)(member=cn={user}\5c))` {
		t.Error(got)
	}
}

// TestSilentDirectories: a directory that says nothing, from the beginning or once TLS is to start,
// takes no more than its share of the time, and the next one is asked.
func TestSilentDirectories(t *testing.T) {
	t.Parallel()
	s := slapdtest.Start(t, "ann")
	// The answer to StartTLS: message 1, an extended response, success.
	agreed := []byte{0x30, 0x0c, 2, 1, 1, 0x78, 7, 0x0a, 1, 0, 4, 0, 4, 0}
	var all sync.WaitGroup
	for name, says := range map[string][]byte{"at once": nil, "before TLS": agreed,
		"in clear": nil} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				conn.Write(says)
			}
		}()
		l := directories(t, s)["after StartTLS"]
		l.StartTLS = name != "in clear"
		l.URLs = append([]string{"ldap://" + listener.Addr().String()}, l.URLs...)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := l.Ask(ctx, Question{User: "ann", Password: "ann secret"}); err != nil {
				t.Errorf("silent %s: %v", name, err)
			}
		})
	}
	all.Wait()
}

// TestOneDirectoryRefuses: that one directory is out of service does not hide that the next one
// refuses the password of the search.
func TestOneDirectoryRefuses(t *testing.T) {
	t.Parallel()
	s := slapdtest.Start(t, "ann")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			conn.Read(make([]byte, 1024))
			// The answer to a bind: message 1, unavailable.
			conn.Write([]byte{0x30, 0x0c, 2, 1, 1, 0x61, 7, 0x0a, 1, 52, 4, 0, 4, 0})
			conn.Close()
		}
	}()
	l := directories(t, s)["after StartTLS"]
	l.StartTLS, l.URLs = false, append([]string{"ldap://" + listener.Addr().String()}, l.URLs...)
	for _, password := range []string{"wrong", l.SearchPassword} {
		l.SearchPassword = password
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := l.Reach(ctx)
		cancel()
		if err == nil || Refuses(err) != (password == "wrong") {
			t.Errorf("with the password %q: %v", password, err)
		}
	}
}

// sequence makes an element of BER that has others in it.
func sequence(class ber.Class, tag ber.Tag, inner ...*ber.Packet) *ber.Packet {
	made := ber.Encode(class, ber.TypeConstructed, tag, nil, "")
	for _, one := range inner {
		made.AppendChild(one)
	}
	return made
}

func octets(text string) *ber.Packet {
	return ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, text, "")
}

// directoryOf is a directory that lets everybody in, and says what groups they are in.
func directoryOf(t *testing.T, groups func(say func(op *ber.Packet) error)) *LDAP {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		for searches := 0; ; {
			request, err := ber.ReadPacket(conn)
			if err != nil || len(request.Children) < 2 {
				return
			}
			say := func(op *ber.Packet) error {
				_, err := conn.Write(sequence(ber.ClassUniversal, ber.TagSequence,
					request.Children[0], op).Bytes())
				return err
			}
			done := ber.Tag(ldap.ApplicationBindResponse)
			if request.Children[1].Tag == ldap.ApplicationSearchRequest {
				done = ldap.ApplicationSearchResultDone
				if searches++; searches == 1 {
					say(sequence(ber.ClassApplication, ldap.ApplicationSearchResultEntry,
						octets("uid=ann"), sequence(ber.ClassUniversal, ber.TagSequence,
							sequence(ber.ClassUniversal, ber.TagSequence, octets("uid"),
								sequence(ber.ClassUniversal, ber.TagSet, octets("ann"))))))
				} else {
					groups(say)
				}
			}
			say(sequence(ber.ClassApplication, done, ber.NewInteger(ber.ClassUniversal,
				ber.TypePrimitive, ber.TagEnumerated, 0, ""), octets(""), octets("")))
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return &LDAP{URLs: []string{"ldap://" + listener.Addr().String()}, Name: "uid",
		DN: "uid={user}", GroupBase: "cn=groups", GroupFilter: "(member={dn})"}
}

// TestWhatADirectorySays: a directory that says too much, in one answer or in many, or nests it so
// deep that it takes many times its length, decides nothing.
func TestWhatADirectorySays(t *testing.T) {
	t.Parallel()
	group := func(name string, inner ...*ber.Packet) *ber.Packet {
		return sequence(ber.ClassApplication, ldap.ApplicationSearchResultEntry,
			append([]*ber.Packet{octets("cn=" + name)}, inner...)...)
	}
	attributes := sequence(ber.ClassUniversal, ber.TagSequence)
	deep := octets("x")
	for range 100 {
		deep = sequence(ber.ClassUniversal, ber.TagSequence, deep)
	}
	for name, c := range map[string]struct {
		groups  func(say func(op *ber.Packet) error)
		decides bool
	}{
		"a thousand groups": {func(say func(*ber.Packet) error) {
			for range mostGroups {
				say(group("g", attributes))
			}
		}, true},
		"long ones": {func(say func(*ber.Packet) error) {
			for range mostGroups {
				if say(group(strings.Repeat("x", mostSaid/100), attributes)) != nil {
					return
				}
			}
		}, false},
		"deep": {func(say func(*ber.Packet) error) { say(group("g", attributes, deep)) }, false},
	} {
		l := directoryOf(t, c.groups)
		answer, err := l.Ask(t.Context(), Question{User: "ann", Password: "x"})
		if (err == nil) != c.decides || c.decides && len(answer.Groups) != mostGroups ||
			refused(err) {
			t.Errorf("%s: %d groups, %v", name, len(answer.Groups), err)
		}
		if name == "long ones" && !errors.Is(err, ErrAnswered) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
