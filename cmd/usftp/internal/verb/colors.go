package verb

import (
	"cmp"
	"maps"
	"os"
	"path"
	"strings"

	"github.com/mattn/go-runewidth"
)

// textWidth measures text as most terminals do: ambiguous characters take one column.
var textWidth = &runewidth.Condition{StrictEmojiNeutral: true}

// Colors define how ls colours kinds of files, like LS_COLORS for GNU's ls. A nil *Colors means no
// colours.
type Colors struct {
	kinds  map[string]string // by the two letters: "di" is a directory
	suffix []suffixColor     // in the order of the variable; later ones take precedence
}

type suffixColor struct{ suffix, code string }

// defaultColors are the colours of GNU's ls.
var defaultColors = map[string]string{
	"di": "01;34", "ln": "01;36", "pi": "33", "so": "01;35", "bd": "01;33", "cd": "01;33",
	"ex": "01;32", "su": "37;41", "sg": "30;43", "st": "37;44", "ow": "34;42", "tw": "30;42",
}

// newColors parses LS_COLORS; if it is empty, the colours are GNU's. Anything that is not a colour
// is ignored: an environment variable must not inject other terminal commands into the output.
func newColors(variable string) *Colors {
	c := &Colors{kinds: maps.Clone(defaultColors)}
	for _, item := range strings.Split(variable, ":") {
		name, code, ok := strings.Cut(item, "=")
		switch {
		case !ok || strings.Trim(code, "0123456789;") != "" && code != "target":
		case strings.HasPrefix(name, "*"):
			c.suffix = append(c.suffix, suffixColor{name[1:], code})
		case len(name) == 2:
			c.kinds[name] = code
		}
	}
	return c
}

// ColorsFor returns the colours for a setting: "always", "never" or "auto". NO_COLOR (no-color.org)
// and a terminal without colours turn auto off.
func ColorsFor(when string, terminal bool) *Colors {
	none := os.Getenv("NO_COLOR") != ""
	if when == "never" || when != "always" && (!terminal || none || os.Getenv("TERM") == "dumb") {
		return nil
	}
	return newColors(os.Getenv("LS_COLORS"))
}

// paint puts the colour of a file around its name as shown.
func (c *Colors) paint(e *entry, shown string) string {
	if c == nil {
		return shown
	}
	return c.wrap(c.code(e), shown)
}

func (c *Colors) wrap(code, shown string) string {
	if c == nil || strings.Trim(code, "0;") == "" {
		return shown
	}
	return "\x1b[0m\x1b[" + code + "m" + shown + "\x1b[0m"
}

// code returns the colour of a file.
func (c *Colors) code(e *entry) string {
	mode := e.stat.Mode
	switch {
	case !e.stat.HasMode() && !e.stat.HasType():
		return ""
	case e.isLink():
		return c.link(e)
	}
	switch mode & typeMask {
	case typeDir:
		return c.first(special(mode&0o1002 == 0o1002, "tw"), special(mode&0o002 != 0, "ow"),
			special(mode&0o1000 != 0, "st"), "di")
	case typeFIFO:
		return c.kinds["pi"]
	case typeSocket:
		return c.kinds["so"]
	case typeBlock:
		return c.kinds["bd"]
	case typeChar:
		return c.kinds["cd"]
	}
	if code := c.first(special(mode&0o4000 != 0, "su"), special(mode&0o2000 != 0, "sg"),
		special(mode&0o111 != 0, "ex")); code != "" {
		return code
	}
	name := path.Base(e.name)
	for i := len(c.suffix) - 1; i >= 0; i-- {
		if strings.HasSuffix(strings.ToLower(name), strings.ToLower(c.suffix[i].suffix)) {
			return c.suffix[i].code
		}
	}
	return c.kinds["fi"]
}

// link returns the colour of a symbolic link, which may be its target's.
func (c *Colors) link(e *entry) string {
	switch {
	case e.broken && c.kinds["or"] != "":
		return c.kinds["or"]
	case c.kinds["ln"] != "target":
		return c.kinds["ln"]
	case e.targetStat == nil:
		return ""
	}
	return c.code(&entry{name: e.target, stat: *e.targetStat})
}

// missing returns the colour of a link's missing target.
func (c *Colors) missing() string {
	if c == nil {
		return ""
	}
	return cmp.Or(c.kinds["mi"], c.kinds["or"])
}

// followLinks reports whether the colour of a link depends on its target.
func (c *Colors) followLinks() bool {
	return c != nil && (c.missing() != "" || c.kinds["ln"] == "target")
}

func special(is bool, kind string) string {
	if is {
		return kind
	}
	return ""
}

// first returns the colour of the first kind that has a colour.
func (c *Colors) first(kinds ...string) string {
	for _, kind := range kinds {
		if code := c.kinds[kind]; kind != "" && strings.Trim(code, "0;") != "" {
			return code
		}
	}
	return ""
}
