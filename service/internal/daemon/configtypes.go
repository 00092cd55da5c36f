package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server/sshd"
)

// checked is a text that has been validated. The decoder lets structs decode themselves from text,
// but not string types, and would put a number without quotes into a type of numbers as it is: a
// time of 30 nanoseconds.
type checked struct{ text string }

func (c checked) value() string { return c.text }

// Configuration values validate themselves when they are decoded, so that the decoder can report
// where an error is.
type (
	addressText   struct{ checked }
	formatText    struct{ checked }
	levelText     struct{ slog.Level }
	durationText  struct{ time.Duration }
	ageText       struct{ time.Duration } // may be long: in days, as 90d, or as other times
	prefixText    struct{ netip.Prefix }
	countNumber   uint32
	sizeText      uint64
	umaskText     struct{ mode fs.FileMode }
	operationText struct{ checked }
	cipherText    struct{ checked }
	algorithmText struct{ checked }
	keyText       struct{ checked }
	passwordText  struct{ checked }
	storeText     struct{ checked }
	uploadsText   struct{ checked }
	secondText    struct{ checked }
)

// at gives an error its position in the file. The decoder does so only for strings, not for numbers
// or others without quotes.
func at(text []byte, err error) error {
	if err == nil {
		return nil
	}
	return unstable.NewParserError(text, "%s", err)
}

func (a *addressText) UnmarshalText(text []byte) error {
	a.text = string(text)
	return at(text, site.CheckAddress(string(text)))
}

func (f *formatText) UnmarshalText(text []byte) error {
	f.text = string(text)
	if f.text != "text" && f.text != "json" {
		return at(text, fmt.Errorf("%q: must be text or json", text))
	}
	return nil
}

func (l *levelText) UnmarshalText(text []byte) (err error) {
	l.Level, err = site.ParseLevel(string(text))
	return at(text, err)
}

func (d *durationText) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	if err != nil || value <= 0 {
		return at(text, fmt.Errorf("%q is not a valid time: use a form such as 30s, 5m or 1h30m",
			text))
	}
	d.Duration = value
	return nil
}

func (p *prefixText) UnmarshalText(text []byte) (err error) {
	p.Prefix, err = parsePrefix(string(text))
	return at(text, err)
}

func (s *sizeText) UnmarshalText(text []byte) error {
	size, err := ui.ParseSize(string(text))
	*s = sizeText(size)
	return at(text, err)
}

func (a *ageText) UnmarshalText(text []byte) (err error) {
	a.Duration, err = parseAge(string(text))
	return at(text, err)
}

func (u *umaskText) UnmarshalText(text []byte) (err error) {
	u.mode, err = site.ParseUmask(strings.TrimPrefix(string(text), "0o"))
	return at(text, err)
}

func (o *operationText) UnmarshalText(text []byte) error {
	o.text = string(text)
	return at(text, site.KnownOperation(string(text)))
}

func (c *cipherText) UnmarshalText(text []byte) error {
	c.text = string(text)
	if known := sshd.Ciphers(); !slices.Contains(known, c.text) {
		return at(text, fmt.Errorf("unknown cipher %q; use %s", text, strings.Join(known, ", ")))
	}
	return nil
}

func (a *algorithmText) UnmarshalText(text []byte) error {
	a.text = string(text)
	if known := sshd.LegacyAlgorithms(); !slices.Contains(known, a.text) {
		return at(text, fmt.Errorf("unknown legacy algorithm %q; use %s", text,
			strings.Join(known, ", ")))
	}
	return nil
}

func (k *keyText) UnmarshalText(text []byte) error {
	k.text = string(text)
	if strings.ContainsAny(string(text), "\r\n") {
		return at(text, errors.New("a key must be one line"))
	}
	keys := sshd.ParseAuthorizedKeys("", text)
	if len(keys.Warnings) > 0 {
		_, warning, _ := strings.Cut(keys.Warnings[0], ": ")
		if warning == "no key" {
			warning += ": write the line itself, or name its file in authorized_keys"
		}
		return at(text, errors.New(warning))
	}
	if keys.Len() == 0 {
		return at(text, errors.New("no key"))
	}
	return nil
}

func (p *passwordText) UnmarshalText(text []byte) error {
	if p.text = string(text); p.text == passwordOutside {
		return nil
	}
	_, err := sshd.ParsePasswords("", []byte("user:"+string(text)))
	if err == nil && strings.ContainsAny(string(text), "\r\n") {
		err = errors.New("not a password hash")
	}
	if err != nil {
		return at(text, fmt.Errorf("%s: usftpd hash-password makes one",
			strings.TrimPrefix(err.Error(), ":1: ")))
	}
	return nil
}

func (s *storeText) UnmarshalText(text []byte) error {
	s.text = string(text)
	u, err := url.Parse(s.text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return at(text, errors.New("a store's URL is postgres://USER@HOST/DATABASE"))
	}
	return nil
}

func (u *uploadsText) UnmarshalText(text []byte) error {
	switch u.text = string(text); {
	case u.text == "atomic" && !canBeAtomic:
		return at(text,
			errors.New("this system has no atomic uploads; Linux, macOS and FreeBSD have"))
	case u.text != "atomic" && u.text != "in-place":
		return at(text, fmt.Errorf("%q: must be atomic or in-place", text))
	}
	return nil
}

func (s *secondText) UnmarshalText(text []byte) error {
	if s.text = string(text); s.text != "totp" && s.text != "none" {
		return at(text, fmt.Errorf("%q: must be totp or none", text))
	}
	return nil
}

// canBeAtomic reports whether uploads to directories can appear when they are complete.
var canBeAtomic = slices.Contains([]string{"linux", "darwin", "freebsd"}, runtime.GOOS)

func (u uploadsText) atomic() bool { return u.text == "atomic" || u.text == "" && canBeAtomic }

// linesOf returns the lines of keys: "grace", "certificates.revoked", "users[2].root", and
// "users[2]" for the table itself. zero is the first key whose value is 0. All settings of numbers
// are limits or sizes, and a limit of nothing would be none at all; only of metrics' users there
// may be none.
func linesOf(data []byte) (lines map[string]int, zero string) {
	lines = map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	tables := map[string]int{}
	for p.NextExpression() {
		e := p.Expression()
		var parts []string
		line := 0
		for key := e.Key(); key.Next(); {
			parts = append(parts, string(key.Node().Data))
			line = p.Shape(key.Node().Raw).Start.Line
		}
		name := strings.Join(parts, ".")
		switch e.Kind {
		case unstable.ArrayTable:
			table = fmt.Sprintf("%s[%d]", name, tables[name])
			tables[name]++
			lines[table] = line
			table += "."
		case unstable.Table:
			table = name + "."
			lines[name] = line
		case unstable.KeyValue:
			lines[table+name] = line
			if found := zeroIn(e.Value(), table+name); found != "" && zero == "" {
				zero = found
				lines[zero] = line
			}
		}
	}
	return lines, zero
}

// zeroIn returns the first key in a value, whose own key is name, that is 0.
func zeroIn(value *unstable.Node, name string) string {
	switch value.Kind {
	case unstable.Integer:
		number, err := strconv.ParseInt(string(value.Data), 0, 64)
		if err == nil && number == 0 && !strings.HasSuffix(name, "metrics_users") {
			return name
		}
	case unstable.Array, unstable.InlineTable:
		for it := value.Children(); it.Next(); {
			inner, key := it.Node(), name
			if inner.Kind == unstable.KeyValue {
				for part := inner.Key(); part.Next(); {
					key += "." + string(part.Node().Data)
				}
				inner = inner.Value()
			}
			if zero := zeroIn(inner, key); zero != "" {
				return zero
			}
		}
	}
	return ""
}

// parsePrefix parses an address or a range of addresses.
func parsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if in := prefix.Addr(); in.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(in.Unmap(), prefix.Bits()-96)
		}
		return prefix.Masked(), nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a range such as 10.0.0.0/8",
			text)
	}
	return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
}
