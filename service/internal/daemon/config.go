package daemon

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/retention"
	"github.com/usftp/usftp/service/internal/s3bucket"
)

// serveFile is the file named by --config. docs/service.md describes every field.
type serveFile struct {
	Listen        []addressText `toml:"listen"`
	HostKeys      []string      `toml:"host_keys"`
	LogFormat     formatText    `toml:"log_format"`
	LogLevel      levelText     `toml:"log_level"`
	Metrics       addressText   `toml:"metrics"`
	MetricsUsers  countNumber   `toml:"metrics_users"`
	Grace         durationText  `toml:"grace"`
	ProxyProtocol []prefixText  `toml:"proxy_protocol"`
	Uploads       uploadsText   `toml:"uploads"`

	Banner           string          `toml:"banner"`
	Ciphers          []cipherText    `toml:"ciphers"`
	LegacyAlgorithms []algorithmText `toml:"legacy_algorithms"`
	StrictModes      *bool           `toml:"strict_modes"`
	Compress         bool            `toml:"compress"`

	Limits struct {
		LoginTimeout      durationText `toml:"login_timeout"`
		IdleTimeout       durationText `toml:"idle_timeout"`
		Sessions          countNumber  `toml:"sessions"`
		Logins            countNumber  `toml:"logins"`
		LoginsEachAddress countNumber  `toml:"logins_each_address"`
		LoginsDropStart   countNumber  `toml:"logins_drop_start"`
		LoginsDropRate    countNumber  `toml:"logins_drop_rate"`
		LoginsKnown       countNumber  `toml:"logins_known"`
	} `toml:"limits"`

	Bans struct {
		UserFailures    countNumber  `toml:"user_failures"`
		AddressFailures countNumber  `toml:"address_failures"`
		First           durationText `toml:"first"`
		Longest         durationText `toml:"longest"`
		Forget          durationText `toml:"forget"`
		Never           []prefixText `toml:"never"`
	} `toml:"bans"`

	Passwords struct {
		MinLength countNumber `toml:"min_length"`
		MaxAge    ageText     `toml:"max_age"`
	} `toml:"passwords"`

	Certificates struct {
		Authorities string `toml:"authorities"`
		Revoked     string `toml:"revoked"`
	} `toml:"certificates"`

	Store *storeTable `toml:"store"`

	Storage storageTable `toml:"storage"`

	Groups map[string]*groupTable `toml:"groups"`

	Users []userTable `toml:"users"`

	Hooks []hookTable `toml:"hooks"`

	Audit *auditTable `toml:"audit"`

	Admin *adminTable `toml:"admin"`

	Retention []retentionTable `toml:"retention"`
	LDAP      *ldapTable       `toml:"ldap"`
	LoginHook *loginHookTable  `toml:"login_hook"`
	Outside   []*templateTable `toml:"outside"`
}

type storeTable struct {
	File string    `toml:"file"`
	URL  storeText `toml:"url"`
}

type storageTable struct {
	Endpoint    string   `toml:"endpoint"`
	Region      string   `toml:"region"`
	PathStyle   bool     `toml:"path_style"`
	Keys        string   `toml:"keys"`
	Profile     string   `toml:"profile"`
	CA          string   `toml:"ca"`
	Encryption  string   `toml:"encryption"`
	Memory      sizeText `toml:"memory"`
	RefuseModes bool     `toml:"refuse_modes"`
}

// settings are the contents of a configuration file.
type settings struct {
	site.Settings
	metrics      string
	metricsUsers int // how many users have metrics of their own
	proxies      []netip.Prefix
	store        string // a file or a URL; "" is the usual file, if that is possible
	storage      storage
	hooks        []*hooks.Hook
	rules        []*retention.Rule
	admin        *admin        // nil without a status page
	audit        time.Duration // how long the audit trail is kept; 0 without one
	atomic       bool          // uploads to directories appear when they are complete
	outside      *outsiders
	passwords    passwordRules
	secrets      []string // files
}

// readConfig reads a file. Its errors begin with the file's name and the line number.
func readConfig(name string) (*settings, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, site.FileError("cannot read the configuration", name, err)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	var file serveFile
	decoder := toml.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, configError(name, err)
	}
	f := &configFile{name: name}
	zero := ""
	if f.lines, zero = linesOf(data); zero != "" {
		return nil, fmt.Errorf("%s:%d: %s: cannot be 0, which would count as not set: leave the "+
			"setting out for its default", name, f.lines[zero],
			zero[strings.LastIndexByte(zero, '.')+1:])
	}
	return f.settings(&file)
}

// configError adds the position in the file to an error of the decoder.
func configError(name string, err error) error {
	if unknown, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var texts []string
		for _, one := range unknown.Errors {
			line, _ := one.Position()
			texts = append(texts, fmt.Sprintf("%s:%d: unknown setting %q", name, line,
				strings.Join(one.Key(), ".")))
		}
		return errors.New(strings.Join(texts, "\n"))
	}
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, column := at.Position()
		text := strings.TrimPrefix(at.Error(), "toml: ")
		if m := otherKind.FindStringSubmatch(text); m != nil {
			text = "must be " + kindOf(m[1])
		} else if m := outOfRange.FindStringSubmatch(text); m != nil && m[1] == "" {
			text = "the number is too large"
		} else if m != nil {
			text = "cannot be negative"
		} else if strings.Contains(text, "leading zeroes") {
			text += `: use quotes, as in umask = "022"`
		}
		if key := strings.Join(at.Key(), "."); key != "" {
			text = key + ": " + text
		}
		return fmt.Errorf("%s:%d:%d: %s", name, line, column, text)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// otherKind matches the decoder's error for a value of the wrong type, which names the setting's Go
// type.
var otherKind = regexp.MustCompile(`^cannot decode TOML .* of type (.+)$`)

// outOfRange matches the decoder's errors for numbers below 0, and for those that are too large.
var outOfRange = regexp.MustCompile(`^(negative )?integer value .* cannot be stored`)

func kindOf(goType string) string {
	switch {
	case goType == "[]daemon.userTable":
		return "tables, each headed by [[users]]"
	case goType == "[]*daemon.templateTable":
		return "tables, each headed by [[outside]]"
	case goType == "[]daemon.folderTable":
		return "tables, each headed by [[users.folders]] or [[groups.NAME.folders]]"
	case goType == "[]daemon.hookTable":
		return "tables, each headed by [[hooks]]"
	case goType == "[]daemon.retentionTable":
		return "tables, each headed by [[retention]]"
	case strings.HasPrefix(goType, "[]"):
		return "a list in brackets"
	case strings.HasPrefix(goType, "map["):
		return "tables, each headed by [groups.NAME]"
	case strings.HasPrefix(strings.TrimPrefix(goType, "*"), "struct {"),
		strings.HasSuffix(goType, "Table"):
		return "a table, headed by its name in brackets"
	case goType == "toml.LocalDate":
		return "a date such as 2027-01-31, without quotes"
	case strings.TrimPrefix(goType, "*") == "bool":
		return "true or false"
	case goType == "daemon.countNumber", strings.HasPrefix(goType, "int"):
		return "a number"
	}
	return "a quoted string"
}

// A configFile is a decoded file that is being interpreted.
type configFile struct {
	name       string
	lines      map[string]int
	strict     bool // refuse files of keys that others could change
	made       *settings
	groupsOf   map[string]*groupTable
	ownFolders []int // number of folders of each user, up to the current one
}

// entry names an entry of a list of tables, such as a user.
func entry(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// wrong returns an error about a key, of an entry unless entry is "".
func (f *configFile) wrong(entry, key string, err error) error {
	line := f.lines[key]
	if table, _, _ := strings.Cut(key, "."); line == 0 { // the key is missing
		line = f.lines[table]
	}
	if entry != "" {
		if line = f.lines[entry+"."+key]; line == 0 {
			list, _, _ := strings.Cut(entry, "[")
			line = max(f.lines[entry], f.lines[list])
		}
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return fmt.Errorf("%s:%d: %s: %w", f.name, max(line, 1), key, err)
}

// path returns the path of a file named in this one: relative to this one's directory, unless
// absolute.
func (f *configFile) path(name string) string {
	switch {
	case name == "":
		return ""
	case filepath.IsAbs(name):
		return filepath.Clean(name) // of two spellings of a root, each would have a quota
	}
	return filepath.Join(filepath.Dir(f.name), name)
}

func (f *configFile) settings(file *serveFile) (*settings, error) {
	f.strict = file.StrictModes == nil || *file.StrictModes
	f.made = &settings{metrics: file.Metrics.text, metricsUsers: int(file.MetricsUsers),
		atomic: file.Uploads.atomic(), Settings: site.Settings{
			Grace: file.Grace.Duration, LogFormat: file.LogFormat.text,
			LogLevel: file.LogLevel.Level,
			SSHD: sshd.Config{
				LoginTimeout: file.Limits.LoginTimeout.Duration,
				IdleTimeout:  file.Limits.IdleTimeout.Duration,
				MaxSessions:  int(file.Limits.Sessions), MaxLogins: int(file.Limits.Logins),
				MaxLoginsEach:    int(file.Limits.LoginsEachAddress),
				DropStart:        int(file.Limits.LoginsDropStart),
				DropRate:         int(file.Limits.LoginsDropRate),
				MaxLoginsKnown:   int(file.Limits.LoginsKnown),
				Ciphers:          texts(file.Ciphers),
				LegacyAlgorithms: texts(file.LegacyAlgorithms),
				Compress:         file.Compress,
			},
		}}
	if file.Limits.LoginsDropRate > 100 {
		return nil, f.wrong("", "limits.logins_drop_rate", errors.New("at most 100 percent"))
	}
	if err := f.bans(file); err != nil {
		return nil, err
	}
	if err := f.passwords(file); err != nil {
		return nil, err
	}
	if err := f.banner(file.Banner); err != nil {
		return nil, err
	}
	for _, address := range file.Listen {
		f.made.Listen = append(f.made.Listen, address.text)
	}
	for _, prefix := range file.ProxyProtocol {
		f.made.proxies = append(f.made.proxies, prefix.Prefix)
	}
	for _, name := range file.HostKeys {
		f.made.HostKeys = append(f.made.HostKeys, f.path(name))
	}
	if err := f.certificates(file.Certificates.Authorities, file.Certificates.Revoked); err != nil {
		return nil, err
	}
	if err := f.store(file.Store); err != nil {
		return nil, err
	}
	if err := f.storage(&file.Storage); err != nil {
		return nil, err
	}
	if err := f.admin(file.Admin); err != nil {
		return nil, err
	}
	if file.Audit != nil {
		f.made.audit = cmp.Or(file.Audit.Keep.Duration, usualKeep)
		f.made.SSHD.Hashes = file.Audit.Hashes
	}
	if err := f.groups(file.Groups); err != nil {
		return nil, err
	}
	if err := f.outside(file); err != nil {
		return nil, err
	}
	if len(file.Users) == 0 && file.Store == nil && len(file.Outside) == 0 {
		return nil, fmt.Errorf("%s:1: there are no users: nobody could log in; with [store], they"+
			" may be in the store alone", f.name)
	}
	names := map[string]bool{}
	for i := range file.Users {
		f.ownFolders = append(f.ownFolders, len(file.Users[i].Folders))
		one, err := f.user(i, &file.Users[i])
		if err != nil {
			return nil, err
		}
		if names[one.Name] {
			return nil, f.wrong(entry("users", i), "name",
				fmt.Errorf("user %q already exists", one.Name))
		}
		names[one.Name] = true
		f.made.Users = append(f.made.Users, one)
	}
	for i := range file.Hooks {
		one, err := f.hook(i, &file.Hooks[i])
		if err != nil {
			return nil, err
		}
		f.made.hooks = append(f.made.hooks, one)
	}
	for i := range file.Retention {
		rules, err := f.retention(i, &file.Retention[i])
		if err != nil {
			return nil, err
		}
		f.made.rules = append(f.made.rules, rules...)
	}
	return f.made, nil
}

// bans interprets the rules for bans.
func (f *configFile) bans(file *serveFile) error {
	t := &file.Bans
	f.made.SSHD.BanRules = sshd.BanRules{UserFailures: int(t.UserFailures),
		AddressFailures: int(t.AddressFailures), First: t.First.Duration,
		Longest: t.Longest.Duration, Forget: t.Forget.Duration}
	rules := f.made.SSHD.BanRules.WithDefaults()
	if rules.Longest < rules.First {
		return f.wrong("", "bans.longest", fmt.Errorf("%s is less than %s, which first is",
			rules.Longest, rules.First))
	}
	never := t.Never
	f.made.SSHD.Safe = func(address netip.Addr) bool {
		return slices.ContainsFunc(never, func(p prefixText) bool { return p.Contains(address) })
	}
	return nil
}

// longestBanner limits the text that each connection is sent, and has to hold, before its login.
const longestBanner = 8 << 10

// banner reads the text that clients are sent before they log in. Control characters are refused,
// since clients may pass them on to a terminal.
func (f *configFile) banner(name string) error {
	if name == "" {
		return nil
	}
	data, err := os.ReadFile(f.path(name))
	if err == nil && (!utf8.Valid(data) || bytes.ContainsFunc(data, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\r\n\t", r)
	})) {
		err = fmt.Errorf("%s: must be text in UTF-8, without control characters", f.path(name))
	}
	if err == nil && len(data) > longestBanner {
		err = fmt.Errorf("%s: has %d bytes, and may have %d", f.path(name), len(data),
			longestBanner)
	}
	if err != nil {
		return f.wrong("", "banner", err)
	}
	f.made.SSHD.Banner = string(data)
	return nil
}

// store interprets the place of the store. A table without either setting is for the usual file.
func (f *configFile) store(table *storeTable) (err error) {
	switch {
	case table == nil:
	case table.File != "" && table.URL.text != "":
		return f.wrong("", "store.url", errors.New("the store is either a file or at a URL"))
	case table.URL.text != "":
		f.made.store = table.URL.text
	case table.File != "":
		f.made.store = f.path(table.File)
	default:
		f.made.store, err = usualStore()
	}
	return err
}

// storage interprets the settings of object storage, and reads the files they name, so that
// mistakes are found here.
func (f *configFile) storage(table *storageTable) error {
	f.made.storage = storage{memory: int64(table.Memory), refuseModes: table.RefuseModes,
		Config: s3bucket.Config{Endpoint: table.Endpoint, Region: table.Region,
			PathStyle: table.PathStyle, Keys: f.path(table.Keys), Profile: table.Profile,
			CA: f.path(table.CA), Encryption: table.Encryption}}
	if f.made.storage.memory == 0 {
		f.made.storage.memory = 128 << 20
	}
	if table.Keys != "" {
		if err := f.readableByOthers(f.path(table.Keys)); err != nil {
			return f.wrong("", "storage.keys", err)
		}
	}
	if _, err := s3bucket.New("bucket", f.made.storage.Config); err != nil {
		key, others := "storage.endpoint", f.made.storage.Config
		others.CA = ""
		if _, err := s3bucket.New("bucket", others); err == nil {
			key = "storage.ca"
		}
		return f.wrong("", key, err)
	}
	return nil
}

func (f *configFile) certificates(authorities, revoked string) (err error) {
	if revoked != "" {
		if f.made.Revoked, err = sshd.ReadRevocationList(f.path(revoked)); err != nil {
			return f.wrong("", "certificates.revoked", err)
		}
	}
	if authorities == "" {
		return nil
	}
	data, err := os.ReadFile(f.path(authorities))
	if err != nil {
		return f.wrong("", "certificates.authorities", err)
	}
	made := &sshd.Authorities{Revoked: f.made.Revoked}
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
		// No certificate is signed by a certificate.
		if _, ok := key.(*ssh.Certificate); err != nil || len(options) > 0 || ok {
			return f.wrong("", "certificates.authorities",
				fmt.Errorf("%s:%d: not a public key without options", f.path(authorities), number))
		}
		made.Keys = append(made.Keys, key)
	}
	if len(made.Keys) == 0 {
		return f.wrong("", "certificates.authorities",
			fmt.Errorf("no keys in %s", f.path(authorities)))
	}
	f.made.Authorities = made
	return nil
}

// longestName is the length of the longest name that can log in.
const longestName = 128

// checkName checks the name of a user. The store's database could not take all of them: PostgreSQL
// takes no NUL, and only UTF-8.
func checkName(name string) error {
	if name == "" || len(name) > longestName || strings.ContainsRune(name, ':') ||
		name[0] == '#' || name != strings.TrimSpace(name) || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unicode.IsControl) {
		return fmt.Errorf("invalid user name %q", name)
	}
	return nil
}

// keys combines the keys in the file with those in a separate file.
func (f *configFile) keys(i int, u *userTable, one *site.Account) error {
	if len(u.Keys) == 0 && u.AuthorizedKeys == "" {
		return nil
	}
	all := []byte(strings.Join(texts(u.Keys), "\n") + "\n")
	if u.AuthorizedKeys != "" {
		name := f.path(u.AuthorizedKeys)
		data, err := os.ReadFile(name)
		if err == nil && f.strict {
			err = sshd.StrictModes(name)
		}
		if err != nil {
			return f.wrong(entry("users", i), "authorized_keys", err)
		}
		f.made.Warnings = append(f.made.Warnings, sshd.ParseAuthorizedKeys(name, data).Warnings...)
		all = append(all, data...)
	}
	one.Keys = sshd.ParseAuthorizedKeys(f.name, all)
	return nil
}

func texts[T interface{ value() string }](list []T) (made []string) {
	for _, one := range list {
		made = append(made, one.value())
	}
	return made
}
