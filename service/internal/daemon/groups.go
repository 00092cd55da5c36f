package daemon

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/sshd"
)

// userTable is a user: settings that only users have, and settings that groups may have as well.
type userTable struct {
	Name           string       `toml:"name"`
	Group          string       `toml:"group"`
	Keys           []keyText    `toml:"keys"`
	AuthorizedKeys string       `toml:"authorized_keys"`
	Password       passwordText `toml:"password"`
	groupTable
}

// groupTable has the settings that the users of a group inherit. A zero value means unset.
type groupTable struct {
	Root          string          `toml:"root"`
	MakeRoot      *bool           `toml:"make_root"`
	Disabled      *bool           `toml:"disabled"`
	Expires       *toml.LocalDate `toml:"expires"`
	AllowFrom     []prefixText    `toml:"allow_from"`
	ReadOnly      *bool           `toml:"read_only"`
	Allow         []operationText `toml:"allow"`
	Deny          []operationText `toml:"deny"`
	Umask         *umaskText      `toml:"umask"`
	QuotaBytes    sizeText        `toml:"quota_bytes"`
	QuotaFiles    countNumber     `toml:"quota_files"`
	Bandwidth     sizeText        `toml:"bandwidth"`
	BandwidthUp   sizeText        `toml:"bandwidth_up"`
	BandwidthDown sizeText        `toml:"bandwidth_down"`
	Sessions      countNumber     `toml:"sessions"`
	MaxFileSize   sizeText        `toml:"max_file_size"`
	SecondFactor  secondText      `toml:"second_factor"`
	RefuseNames   []patternText   `toml:"refuse_names"`
	Folders       []folderTable   `toml:"folders"`

	TransferUp     sizeText   `toml:"transfer_up"`
	TransferDown   sizeText   `toml:"transfer_down"`
	TransferPeriod periodText `toml:"transfer_period"`
}

// from inherits unset settings from a group.
func (t *groupTable) from(group *groupTable) {
	own, theirs := reflect.ValueOf(t).Elem(), reflect.ValueOf(group).Elem()
	if t.Bandwidth != 0 { // sets both directions
		group = new(*group)
		group.BandwidthUp, group.BandwidthDown = 0, 0
		theirs = reflect.ValueOf(group).Elem()
	}
	for i := range own.NumField() {
		if own.Field(i).IsZero() {
			own.Field(i).Set(theirs.Field(i))
		}
	}
}

// errOpens is the error for an empty list of the only things that are allowed, such as a template
// makes of nothing. It would allow everything.
var errOpens = errors.New("an empty list would allow everything: leave the setting out for that")

// opens returns the setting that is such a list, or "".
func (t *groupTable) opens() (key string) {
	switch {
	case t.AllowFrom != nil && len(t.AllowFrom) == 0:
		return "allow_from"
	case t.Allow != nil && len(t.Allow) == 0:
		return "allow"
	}
	return ""
}

// account returns a user with these settings, but without keys and password. wrong is the setting
// that err is about.
func (t *userTable) account() (one site.Account, wrong string, err error) {
	one.Name = t.Name
	one.MaxSessions = int(t.Sessions)
	one.SecondFactor = t.SecondFactor.text == "totp"
	one.Quota = [2]int64{int64(t.QuotaBytes), int64(t.QuotaFiles)}
	one.Bandwidth = sshd.EachWay(int64(t.Bandwidth))
	if t.BandwidthDown != 0 {
		one.Bandwidth.Send = int64(t.BandwidthDown)
	}
	if t.BandwidthUp != 0 {
		one.Bandwidth.Receive = int64(t.BandwidthUp)
	}
	one.Policy = server.Policy{ReadOnly: is(t.ReadOnly), Allowed: texts(t.Allow),
		Denied: texts(t.Deny), MaxFileSize: int64(t.MaxFileSize)}
	one.Transfers = site.Transfers{Up: int64(t.TransferUp), Down: int64(t.TransferDown),
		Daily: t.TransferPeriod.text == "day"}
	if t.Umask != nil {
		one.Policy.Umask = t.Umask.mode
	}
	one.Admission = sshd.Admission{Disabled: is(t.Disabled), From: prefixes(t.AllowFrom)}
	if t.Expires != nil { // the last day
		one.Admission.Expires = t.Expires.AsTime(time.Local).AddDate(0, 0, 1)
	}
	one.MakeRoot, one.RefusedNames = is(t.MakeRoot), texts(t.RefuseNames)
	if key := t.opens(); key != "" {
		return one, key, errOpens
	}
	if one.Root, err = rootFor(t.Root, t.Name); err != nil {
		return one, "root", err
	}
	return one, "", t.folders(&one)
}

// periodText is the period of a transfer quota.
type periodText struct{ checked }

func (p *periodText) UnmarshalText(text []byte) error {
	if p.text = string(text); p.text != "day" && p.text != "month" {
		return at(text, fmt.Errorf("%q: must be day or month", text))
	}
	return nil
}

func is(set *bool) bool { return set != nil && *set }

func prefixes(list []prefixText) (made []netip.Prefix) {
	for _, one := range list {
		made = append(made, one.Prefix)
	}
	return made
}

// userInRoot stands for the user's name in a root.
const userInRoot = "%u"

// rootFor returns a root for a user. The user's name must not lead to another directory.
func rootFor(root, user string) (string, error) {
	if !strings.Contains(root, userInRoot) {
		return root, nil
	}
	if strings.ContainsAny(user, `/\`) || strings.HasPrefix(user, ".") || user == "" {
		return "", fmt.Errorf("user %q cannot have a root with %s: the name is no name of a"+
			" directory", user, userInRoot)
	}
	return strings.ReplaceAll(root, userInRoot, user), nil
}

// templates has what settings say of users of the store.
type templates struct {
	groups    map[string]*groupTable
	passwords passwordRules
}

// groupName matches the name of a group.
var groupName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// groups checks the groups.
func (f *configFile) groups(groups map[string]*groupTable) error {
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		if !groupName.MatchString(name) {
			return f.wrong("", "groups."+name, fmt.Errorf("%q is no name for a group: use letters,"+
				" digits, _ and -", name))
		}
		if group := groups[name]; group.Root != "" {
			var err error
			if group.Root, err = f.root(group.Root); err != nil {
				return f.wrong("groups."+name, "root", err)
			}
		}
		for i := range groups[name].Folders {
			var err error
			if folder := &groups[name].Folders[i]; folder.Root != "" {
				if folder.Root, err = f.root(folder.Root); err != nil {
					return f.wrong(entry("groups."+name+".folders", i), "root", err)
				}
			}
		}
	}
	f.made.Templates, f.groupsOf = templates{groups, f.made.passwords}, groups
	return nil
}

// wrongUser returns an error about a setting of a user, or of the user's group.
func (f *configFile) wrongUser(i int, group, key string, err error) error {
	one, theirs := entry("users", i), "groups."+group
	if f.lines[one+"."+key] == 0 && f.lines[theirs+"."+key] != 0 {
		one = theirs
	}
	return f.wrong(one, key, err)
}

// user interprets one user.
func (f *configFile) user(i int, u *userTable) (one site.Account, err error) {
	wrong := func(key string, err error) (site.Account, error) {
		return one, f.wrongUser(i, u.Group, key, err)
	}
	if err := checkName(u.Name); err != nil {
		return wrong("name", err)
	}
	if u.Group != "" {
		group := f.groupsOf[u.Group]
		if group == nil {
			return wrong("group", errNoGroup(u.Group))
		}
		u.from(group)
	}
	if u.Root == "" {
		return wrong("root", fmt.Errorf("user %s needs a directory", u.Name))
	}
	one, key, err := u.account()
	if at, ok := errors.AsType[folderError](err); ok {
		return one, f.wrongFolder(i, u.Group, at)
	}
	if err != nil {
		return wrong(key, err)
	}
	if one.Root, err = f.root(one.Root); err != nil {
		return wrong("root", err)
	}
	if key, err := keptIn(&one, canBeAtomic); err != nil {
		return wrong(key, err)
	}
	if err := missing(one.Root, one.MakeRoot); err != nil {
		one.Problem = f.wrongUser(i, u.Group, "root", err)
	}
	if err := f.rootsOfFolders(i, u, &one); err != nil {
		return one, err
	}
	usePassword(&one, u.Password.text)
	one.Group = u.Group
	if one.Outside && f.made.outside == nil {
		return wrong("password",
			errors.New("outside of what? There is neither [ldap] nor [login_hook]"))
	}
	if err := f.keys(i, u, &one); err != nil {
		return one, err
	}
	if one.Keys == nil && one.PasswordHash == "" && !one.Outside && f.made.Authorities == nil {
		return wrong("name",
			fmt.Errorf("%s has no way to log in: set keys, authorized_keys or password", u.Name))
	}
	return one, nil
}

func errNoGroup(name string) error { return fmt.Errorf("no group %q", name) }

// root resolves a root that the file names.
func (f *configFile) root(name string) (root string, err error) {
	if isObjects(name) {
		root, _, _, err = objectRoot(name)
		return root, err
	}
	return f.path(name), nil
}

// keptIn returns the setting of a user that needs links to be followed by the server, not by the
// system, where that is impossible: in a directory, unless this system can.
func keptIn(one *site.Account, can bool) (key string, err error) {
	if can || !slices.ContainsFunc(one.Roots(),
		func(root string) bool { return !isObjects(root) }) {
		return "", nil
	}
	switch {
	case len(one.Folders) > 0:
		key = "folders"
	case len(one.RefusedNames) > 0:
		key = "refuse_names"
	default:
		return "", nil
	}
	return key, errors.New("this system follows links that are put into a path meanwhile, so " +
		"this would not hold: use Linux, macOS or FreeBSD, or a root in object storage")
}

// missing returns why a directory cannot be served. One that is to be created needs its parent.
func missing(root string, make bool) error {
	if isObjects(root) {
		return nil
	}
	info, err := site.Reach(root)
	if make && errors.Is(err, os.ErrNotExist) {
		root = filepath.Dir(root)
		info, err = site.Reach(root)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", root)
	}
	return err
}
