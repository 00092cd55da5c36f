package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/outside"
)

// passwordOutside stands for the hash of a user whose password another service checks.
const passwordOutside = "outside"

// askTable has the settings common to all services that are asked.
type askTable struct {
	Timeout durationText `toml:"timeout"`
	AtOnce  countNumber  `toml:"at_once"`
	Rate    countNumber  `toml:"rate"`
	Cache   durationText `toml:"cache"`
}

type ldapTable struct {
	URLs           []string `toml:"urls"`
	StartTLS       bool     `toml:"start_tls"`
	CA             string   `toml:"ca"`
	DN             string   `toml:"dn"`
	SearchDN       string   `toml:"search_dn"`
	SearchPassword string   `toml:"search_password"`
	Base           string   `toml:"base"`
	Filter         string   `toml:"filter"`
	Name           string   `toml:"name"`
	GroupBase      string   `toml:"group_base"`
	GroupFilter    string   `toml:"group_filter"`
	Groups         []string `toml:"groups"`
	askTable
}

type loginHookTable struct {
	URL     hookURL  `toml:"url"`
	Command []string `toml:"command"`
	Secret  string   `toml:"secret"`
	askTable
}

// templateTable has the settings of users in no list.
type templateTable struct {
	Name      string `toml:"name"`
	Group     string `toml:"group"`
	LDAPGroup string `toml:"ldap_group"`
	groupTable
}

// outsiders has the service that is asked about users, and the templates for new ones.
type outsiders struct {
	text      string // the asker's settings, for comparison
	asker     *outside.Asker
	ldap      *outside.LDAP // nil if another service is asked
	templates []template
}

type template struct {
	groupTable
	name, ldapGroup string
	group           string // its name on the status page
}

// usePassword sets how the password of a user is checked.
func usePassword(one *site.Account, hash string) {
	if one.Outside = hash == passwordOutside; !one.Outside {
		one.PasswordHash = hash
	}
}

// outside interprets the tables of the service that is asked about passwords.
func (f *configFile) outside(file *serveFile) (err error) {
	made := &outsiders{}
	switch {
	case file.LDAP != nil && file.LoginHook != nil:
		return f.wrong("", "login_hook", errors.New("with [ldap] nobody else is asked"))
	case file.LDAP != nil:
		err = f.ldap(file.LDAP, made)
	case file.LoginHook != nil:
		err = f.loginHook(file.LoginHook, made)
	case len(file.Outside) > 0:
		return f.wrong(entry("outside", 0), "name",
			errors.New("nobody comes from outside: there is neither [ldap] nor [login_hook]"))
	default:
		return nil
	}
	for i := range file.Outside {
		if err == nil {
			err = f.template(i, file.Outside[i], made)
		}
	}
	f.made.outside = made
	return err
}

// limits returns the limits on asking.
func (f *configFile) limits(table string, t *askTable) (limits outside.Limits, err error) {
	if t.AtOnce > 1000 {
		return limits, f.wrong("", table+".at_once", errors.New("at most 1000 at once"))
	}
	return outside.Limits{Timeout: t.Timeout.Duration, AtOnce: int(t.AtOnce),
		Rate: int(t.Rate), Cache: t.Cache.Duration}, nil
}

func (f *configFile) ldap(t *ldapTable, made *outsiders) error {
	l := &outside.LDAP{URLs: t.URLs, StartTLS: t.StartTLS, DN: t.DN, SearchDN: t.SearchDN,
		Base: t.Base, Filter: t.Filter, Name: t.Name, GroupBase: t.GroupBase,
		GroupFilter: t.GroupFilter, Require: t.Groups,
		TLS: &tls.Config{MinVersion: tls.VersionTLS12}}
	if l.Name == "" {
		l.Name = "uid"
	}
	if l.GroupBase != "" && l.GroupFilter == "" {
		l.GroupFilter = "(|(member={dn})(uniqueMember={dn})(memberUid={user}))"
	}
	made.ldap = l
	if t.Groups != nil && len(t.Groups) == 0 {
		return f.wrong("", "ldap.groups", errOpens)
	}
	if key, err := l.Check(); err != nil {
		return f.wrong("", "ldap."+key, err)
	}
	if t.CA != "" {
		pem, err := os.ReadFile(f.path(t.CA))
		if l.TLS.RootCAs = x509.NewCertPool(); err == nil &&
			!l.TLS.RootCAs.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("no certificate in %s", f.path(t.CA))
		}
		if err != nil {
			return f.wrong("", "ldap.ca", err)
		}
		made.text += string(pem)
	}
	if (t.SearchDN == "") != (t.SearchPassword == "") || t.SearchDN != "" && t.DN != "" {
		return f.wrong("", "ldap.search_dn",
			errors.New("search_dn and search_password go together, and with base"))
	}
	if t.SearchPassword != "" {
		name := f.path(t.SearchPassword)
		data, err := f.readSecret(name)
		if l.SearchPassword = strings.TrimRight(string(data), "\r\n"); err == nil &&
			l.SearchPassword == "" { // a bind with none succeeds, as nobody
			err = fmt.Errorf("no password in %s", name)
		}
		if err != nil {
			return f.wrong("", "ldap.search_password", err)
		}
		made.text += l.SearchPassword
	}
	limits, err := f.limits("ldap", &t.askTable)
	made.text += fmt.Sprintf("%+v", *t)
	made.asker = outside.NewAsker(l, limits)
	return err
}

func (f *configFile) loginHook(t *loginHookTable, made *outsiders) (err error) {
	hook := &hooks.Hook{Name: "login_hook", URL: t.URL.text}
	wrong := func(key string, err error) error { return f.wrong("", "login_hook."+key, err) }
	if u, _ := url.Parse(t.URL.text); u.Scheme == "http" && !thisMachine(u.Hostname()) {
		return wrong("url", errors.New("passwords would cross the network in the clear: use https"))
	}
	if (t.URL.text == "") == (len(t.Command) == 0) {
		return wrong("url", errors.New("a login hook needs either url or command"))
	}
	if t.Secret != "" && t.URL.text == "" {
		return wrong("secret", errors.New("only what is posted to a url is signed"))
	}
	if hook.Command, err = f.program(t.Command); err != nil {
		return wrong("command", err)
	}
	if hook.Secret, err = f.secret(t.Secret); err != nil {
		return wrong("secret", err)
	}
	limits, err := f.limits("login_hook", &t.askTable)
	hook.AtOnce = int(t.AtOnce)
	made.text = fmt.Sprintf("%+v%s", *t, hook.Secret)
	made.asker = outside.NewAsker(hooks.NewLoginHook(hook), limits)
	return err
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// template interprets the settings of users in no list.
func (f *configFile) template(i int, t *templateTable, made *outsiders) error {
	wrong := func(key string, err error) error { return f.wrong(entry("outside", i), key, err) }
	switch {
	case slices.ContainsFunc(made.templates, func(o template) bool { return o.name == t.Name }):
		return wrong("name", fmt.Errorf("another [[outside]] with the name %q", t.Name))
	case t.LDAPGroup != "" && made.ldap == nil:
		return wrong("ldap_group", errors.New("no [ldap] is configured"))
	case t.LDAPGroup != "" && !(outside.Answer{Groups: []string{t.LDAPGroup}}).In(t.LDAPGroup):
		return wrong("ldap_group", fmt.Errorf("%q is no distinguished name", t.LDAPGroup))
	}
	if t.Group != "" {
		group := f.groupsOf[t.Group]
		if group == nil {
			return wrong("group", errNoGroup(t.Group))
		}
		t.from(group)
	}
	if key := t.opens(); key != "" {
		return wrong(key, errOpens)
	}
	if t.Root == "" {
		return wrong("root", errors.New("a directory is needed, such as /srv/usftp/"+userInRoot))
	}
	if strings.Contains(t.Root, "{user}") { // all would share one directory of that name
		return wrong("root", fmt.Errorf("in a root, the user's name is %s, not {user}", userInRoot))
	}
	one := template{t.groupTable, t.Name, t.LDAPGroup, cmp.Or(t.Group, t.Name, t.LDAPGroup)}
	if one.MakeRoot == nil { // nobody can have made directories of users in no list
		one.MakeRoot = new(true)
	}
	var err error
	if one.Root, err = f.root(t.Root); err != nil {
		return wrong("root", err)
	}
	one.Folders = slices.Clone(t.Folders)
	for i := range one.Folders {
		if root := &one.Folders[i].Root; *root != "" {
			if *root, err = f.root(*root); err != nil {
				return wrong("folders", err)
			}
		}
	}
	example, err := one.account("user")
	if errors.As(err, new(folderError)) {
		return wrong("folders", err)
	}
	if err == nil {
		key, err := keptIn(&example, canBeAtomic)
		if err != nil {
			return wrong(key, err)
		}
	}
	if err == nil {
		err = missing(example.Root, example.MakeRoot)
	}
	if err != nil {
		return wrong("root", err)
	}
	made.templates = append(made.templates, one)
	return nil
}

// account returns the account of a user. The name must be plain, so that it leads nowhere else, and
// no two users get the same directory.
func (t template) account(user string) (site.Account, error) {
	if !filepath.IsLocal(user) || len(user) > 255 || user[0] == '.' || !utf8.ValidString(user) ||
		strings.ContainsAny(user, `/\:*?"<>|`) || strings.ContainsFunc(user, unicode.IsControl) ||
		user != strings.TrimSpace(user) || strings.HasSuffix(user, ".") {
		return site.Account{}, fmt.Errorf("the name %q cannot be that of a directory", user)
	}
	one, _, err := (&userTable{Name: user, groupTable: t.groupTable}).account()
	one.Group = t.group
	return one, err
}

// reach returns an error if the service that is asked would not answer, as far as that can be
// tested.
func (o *outsiders) reach() error {
	if o == nil || o.ldap == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), outside.UsualTimeout)
	defer cancel()
	return o.ldap.Reach(ctx)
}

// useOutside lets the service that the settings name decide. Its cache stays, unless the settings
// have changed.
func (s *service) useOutside(made *settings) {
	o := made.outside
	if o == nil {
		return
	}
	if s.outside != nil && s.outside.text == o.text {
		o.asker = s.outside.asker
	}
	made.Outside = func(conn ssh.ConnMetadata, known bool, password string) (*site.Account, error) {
		return s.askOutside(o, conn, known, password)
	}
}

// askOutside decides about a password.
func (s *service) askOutside(o *outsiders, conn ssh.ConnMetadata, known bool,
	password string) (*site.Account, error) {
	name := conn.User()
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !known && s.store != nil {
		if !s.store.KnowsUsers() {
			return nil, fmt.Errorf("%w: the store, which does not answer, may have disabled "+
				"the user", sshd.ErrUndecided)
		}
		if _, there := s.store.User(name); there {
			return nil, errors.New("the store has this user, who was left out for a mistake")
		}
	}
	answer, err := o.asker.Ask(context.Background(), outside.Question{User: name,
		Password: password, Remote: conn.RemoteAddr().String()})
	if err != nil || known {
		return nil, err
	}
	return s.newcomer(o, name, answer)
}

// outsider reports whether a name may belong to a user in no list.
func (made *settings) outsider(name string) bool {
	return made.outside != nil && len(made.outside.templates) > 0 && checkName(name) == nil &&
		made.notInFile(name) == nil
}

// admits reports whether the file has a user of a name, who is not disabled.
func (made *settings) admits(name string) bool {
	return slices.ContainsFunc(made.Users, func(u site.Account) bool {
		return u.Name == name && !u.Admission.Disabled
	})
}

// lacks returns the users whom the file admitted before, if there was one, and does not any more.
func (made *settings) lacks(before *settings) map[string]bool {
	gone := map[string]bool{}
	if before == nil {
		return gone
	}
	for _, file := range []*settings{before, made} {
		for i := range file.Users {
			if u := &file.Users[i]; !u.Admission.Disabled {
				gone[u.Name] = file == before
			}
		}
	}
	return gone
}

// notInFile returns an error if the file has a user of a name, whom the store's does not change.
func (made *settings) notInFile(name string) error {
	if slices.ContainsFunc(made.Users, func(u site.Account) bool { return u.Name == name }) {
		return errors.New("the configuration file has this user: change it there, and reload")
	}
	return nil
}

// newcomer returns the account of a user in no list.
func (s *service) newcomer(o *outsiders, name string, answer outside.Answer) (*site.Account,
	error) {
	i := slices.IndexFunc(o.templates, func(t template) bool {
		return (answer.Template == "" || answer.Template == t.name) &&
			(t.ldapGroup == "" || answer.In(t.ldapGroup))
	})
	if i < 0 {
		return nil, errors.New("the user is in no list, and no [[outside]] is for them")
	}
	one, err := o.templates[i].account(name)
	if s.store != nil {
		if err == nil {
			err = keptFrom(&one, s.storeName)
		}
		one.Admission.Gone = func() bool {
			u, there := s.store.User(name)
			return there && u.Disabled
		}
	}
	return &one, err
}
