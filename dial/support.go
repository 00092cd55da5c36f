package dial

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// An UnsupportedError names an ssh_config keyword that changes where or how to connect and that the
// native dialer does not implement. The system's ssh does ([Config].SSH). It matches
// [errors.ErrUnsupported].
type UnsupportedError struct {
	Keyword string // as ssh_config(5) spells it
	Value   string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("the ssh configuration says %s %s, which is not supported here; use the "+
		"system's ssh (dial.Config.SSH)", e.Keyword, e.Value)
}

func (e *UnsupportedError) Unwrap() error { return errors.ErrUnsupported }

// unsupported are the keywords that change where or how to connect, or whom to trust, and are not
// implemented. If their value differs from the default, the native dialer must not guess.
var unsupported = []struct {
	keyword string
	differ  func(keywords) bool
}{
	{"ProxyUseFdpass", func(w keywords) bool {
		return w.yes("proxyusefdpass", false) && w.set("proxycommand")
	}},
}

// ignored are the keywords that have no effect here, harmlessly. If one is set, -v says so.
var ignored = []struct {
	keyword  string
	harmless []string // values that -v does not mention
}{
	{"CheckHostIP", []string{"no"}},
	{"FingerprintHash", []string{"SHA256", "sha256"}},
	{"GSSAPIAuthentication", []string{"no"}},
	{"HostbasedAuthentication", []string{"no"}},
	{"RemoteCommand", nil},
	{"SendEnv", nil},
	{"SetEnv", nil},
	{"Tunnel", []string{"no", "false"}},
	{"VerifyHostKeyDNS", []string{"no", "false"}}, // without it, more keys are asked about
	{"VisualHostKey", []string{"no"}},
}

// honoured are the keywords that readSettings acts on.
var honoured = []string{
	"addkeystoagent", "addressfamily", "batchmode", "bindaddress", "bindinterface",
	"canonicalizehostname", "casignaturealgorithms", "certificatefile", "ciphers", "compression",
	"connectionattempts", "connecttimeout", "controlmaster", "controlpath",
	"globalknownhostsfile", "hashknownhosts", "hostkeyalgorithms", "hostkeyalias", "hostname",
	"identitiesonly", "identityagent", "identityfile", "kbdinteractiveauthentication",
	"kexalgorithms", "knownhostscommand", "loglevel", "macs", "nohostauthenticationforlocalhost",
	"numberofpasswordprompts", "passwordauthentication", "pkcs11provider", "port",
	"preferredauthentications", "proxycommand", "proxyjump", "pubkeyacceptedalgorithms",
	"pubkeyauthentication", "refuseconnection", "rekeylimit", "requiredrsasize",
	"revokedhostkeys", "securitykeyprovider", "serveralivecountmax", "serveraliveinterval",
	"stricthostkeychecking", "tcpkeepalive", "user", "userknownhostsfile",
}

// knownKeywords returns all keywords that mean something here, in lower case.
func knownKeywords() []string {
	all := slices.Clone(honoured)
	for _, k := range unsupported {
		all = append(all, strings.ToLower(k.keyword))
	}
	for _, k := range ignored {
		all = append(all, strings.ToLower(k.keyword))
	}
	return all
}

// checkSupport refuses keywords that the native dialer cannot honour, and logs those without
// effect. exact means that OpenSSH resolved the keywords, CanonicalizeHostname included.
func checkSupport(w keywords, exact bool, log *slog.Logger) error {
	for _, k := range unsupported {
		if k.differ(w) {
			return &UnsupportedError{k.keyword,
				printable([]byte(w.get(strings.ToLower(k.keyword))))}
		}
	}
	if !exact && w.yes("canonicalizehostname", false) {
		return &UnsupportedError{"CanonicalizeHostname", w.get("canonicalizehostname")}
	}
	// OpenSSH 10.1: a configuration may forbid connecting to a host, and say why.
	if text := w.get("refuseconnection"); text != "" {
		return fmt.Errorf("the ssh configuration refuses this connection: %s",
			printable([]byte(text)))
	}
	if err := checkMethods(w); err != nil {
		return err
	}
	for _, k := range ignored {
		if v := w.get(strings.ToLower(k.keyword)); v != "" && v != "none" &&
			!slices.Contains(k.harmless, v) {
			log.Debug("the ssh configuration's " + k.keyword + " has no effect here")
		}
	}
	return nil
}

// nativeMethods are the login methods that the native dialer implements.
var nativeMethods = []string{"publickey", "keyboard-interactive", "password"}

// checkMethods refuses a configuration that leaves only methods we do not implement: GSSAPI and
// host-based. Debian's ssh_config enables GSSAPI along with the others.
func checkMethods(w keywords) error {
	native := func(method string) bool { return slices.Contains(nativeMethods, method) }
	v := w.get("preferredauthentications")
	if v != "" && !slices.ContainsFunc(strings.Split(v, ","), native) {
		return &UnsupportedError{"PreferredAuthentications", printable([]byte(v))}
	}
	if !w.yes("pubkeyauthentication", true) && !w.yes("passwordauthentication", true) &&
		!w.yes("kbdinteractiveauthentication", true) {
		for _, keyword := range []string{"GSSAPIAuthentication", "HostbasedAuthentication"} {
			if w.yes(strings.ToLower(keyword), false) {
				return &UnsupportedError{keyword, "yes and turns off the other ways to log in"}
			}
		}
	}
	return nil
}
