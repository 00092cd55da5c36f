package dial

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// An UnsupportedError names an ssh_config keyword that changes where or how to connect and that the
// native dialer does not implement. The system's ssh does ([Config].SSH, --ssh). It matches
// [errors.ErrUnsupported].
type UnsupportedError struct {
	Word  string // as ssh_config(5) spells it
	Value string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("the ssh configuration says %s %s, which is not supported here; use the system's ssh (--ssh)", e.Word, e.Value)
}

func (e *UnsupportedError) Unwrap() error { return errors.ErrUnsupported }

// refused are the keywords that change where or how to connect, or whom to trust, and are not
// implemented. If their value differs from the default, the native dialer must not guess.
var refused = []struct {
	word   string
	differ func(words) bool
}{
	{"BindInterface", func(w words) bool { return w.set("bindinterface") }},
	{"ProxyUseFdpass", func(w words) bool {
		return w.yes("proxyusefdpass", false) && w.set("proxycommand")
	}},
	{"KnownHostsCommand", func(w words) bool { return w.set("knownhostscommand") }},
	{"RevokedHostKeys", func(w words) bool { return w.set("revokedhostkeys") }},
	{"VerifyHostKeyDNS", func(w words) bool { return w.yes("verifyhostkeydns", false) }},
	{"PKCS11Provider", func(w words) bool { return w.set("pkcs11provider") }},
	{"SecurityKeyProvider", func(w words) bool {
		v := w.get("securitykeyprovider")
		return v != "" && v != "internal" && !strings.HasPrefix(v, "$")
	}},
}

// told are keywords that have no effect here, harmlessly. With -v the user is told if they are set.
var told = []struct {
	word  string
	plain []string // values that need no word
}{
	{"AddKeysToAgent", []string{"no", "false"}},
	{"CheckHostIP", []string{"no"}},
	{"Compression", []string{"no"}},
	{"FingerprintHash", []string{"SHA256", "sha256"}},
	{"GSSAPIAuthentication", []string{"no"}},
	{"HostbasedAuthentication", []string{"no"}},
	{"RemoteCommand", nil},
	{"SendEnv", nil},
	{"SetEnv", nil},
	{"Tunnel", []string{"no", "false"}},
	{"VisualHostKey", []string{"no"}},
}

// used are the keywords that readSettings acts on.
var used = []string{
	"addressfamily", "batchmode", "bindaddress", "casignaturealgorithms", "certificatefile",
	"ciphers",
	"connectionattempts", "connecttimeout", "controlmaster", "controlpath", "globalknownhostsfile",
	"hashknownhosts", "hostkeyalgorithms",
	"hostkeyalias", "hostname", "identitiesonly", "identityagent", "identityfile",
	"kbdinteractiveauthentication",
	"kexalgorithms", "macs", "nohostauthenticationforlocalhost", "numberofpasswordprompts",
	"passwordauthentication",
	"port", "preferredauthentications", "proxycommand", "proxyjump", "pubkeyacceptedalgorithms",
	"pubkeyauthentication", "rekeylimit", "requiredrsasize", "serveralivecountmax",
	"serveraliveinterval",
	"stricthostkeychecking", "tcpkeepalive", "user", "userknownhostsfile",
	"canonicalizehostname", "refuseconnection",
}

// knownWords are all keywords that mean something here, in lower case.
func knownWords() []string {
	all := slices.Clone(used)
	for _, r := range refused {
		all = append(all, strings.ToLower(r.word))
	}
	for _, t := range told {
		all = append(all, strings.ToLower(t.word))
	}
	return all
}

// checkSupport refuses what the native dialer cannot honour, and logs what has no effect. exact
// means that OpenSSH resolved the keywords, CanonicalizeHostname included.
func checkSupport(w words, exact bool, log *slog.Logger) error {
	for _, r := range refused {
		if r.differ(w) {
			return &UnsupportedError{r.word, printable([]byte(w.get(strings.ToLower(r.word))))}
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
	for _, t := range told {
		if v := w.get(strings.ToLower(t.word)); v != "" && v != "none" &&
			!slices.Contains(t.plain, v) {
			log.Debug("the ssh configuration's " + t.word + " has no effect here")
		}
	}
	return nil
}

// nativeMethods are the login methods that the native dialer implements.
var nativeMethods = []string{"publickey", "keyboard-interactive", "password"}

// checkMethods refuses a configuration that leaves only methods we do not implement: GSSAPI and
// host-based. Debian's ssh_config enables GSSAPI along with the others.
func checkMethods(w words) error {
	native := func(method string) bool { return slices.Contains(nativeMethods, method) }
	v := w.get("preferredauthentications")
	if v != "" && !slices.ContainsFunc(strings.Split(v, ","), native) {
		return &UnsupportedError{"PreferredAuthentications", printable([]byte(v))}
	}
	if !w.yes("pubkeyauthentication", true) && !w.yes("passwordauthentication", true) &&
		!w.yes("kbdinteractiveauthentication", true) {
		for _, word := range []string{"GSSAPIAuthentication", "HostbasedAuthentication"} {
			if w.yes(strings.ToLower(word), false) {
				return &UnsupportedError{word, "yes and turns off the other ways to log in"}
			}
		}
	}
	return nil
}
