package opt

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"

	"github.com/usftp/usftp"
)

// charsets are the character sets of names here and on hosts; nil if names are not converted.
type charsets struct{ local, remote encoding.Encoding }

// parseCharsets parses the value of --iconv, which is rsync's: LOCAL,REMOTE or REMOTE. A dot is
// UTF-8, and - converts nothing.
func parseCharsets(text string) (c charsets, err error) {
	local, remote, both := strings.Cut(text, ",")
	if !both {
		local, remote = ".", local
	}
	if text == "-" {
		return c, nil
	}
	if c.local, err = parseCharset(local); err == nil {
		c.remote, err = parseCharset(remote)
	}
	return c, err
}

// parseCharset finds a character set by its IANA name. ISO-8859-1 is really that, unlike in browsers.
func parseCharset(name string) (encoding.Encoding, error) {
	if name == "." || strings.EqualFold(name, "UTF8") {
		return unicode.UTF8, nil
	}
	c, err := ianaindex.IANA.Encoding(name)
	if err == nil && c == nil {
		err = errors.ErrUnsupported
	}
	if err != nil || strings.HasPrefix(strings.ToUpper(name), "UTF-16") {
		return nil, fmt.Errorf("%q is no character set that names can have; use an IANA name, such as ISO-8859-1, windows-1251 or EUC-JP", name)
	}
	return c, nil
}

// options returns the client option that converts names.
func (c charsets) options() []usftp.ClientOption {
	if c.remote == nil || c.local == c.remote {
		return nil
	}
	return []usftp.ClientOption{usftp.WithNameCoding(c)}
}

// Encode implements usftp.NameCoding.
func (c charsets) Encode(name string) (string, error) { return recode(name, c.local, c.remote) }

// Decode implements usftp.NameCoding.
func (c charsets) Decode(name string) (string, error) { return recode(name, c.remote, c.local) }

// recode converts by way of Unicode. Bytes that are invalid there become U+FFFD, and do not convert
// back.
func recode(name string, from, to encoding.Encoding) (string, error) {
	text, err := from.NewDecoder().String(name)
	if err != nil {
		return "", err
	}
	return to.NewEncoder().String(text)
}
