package s3bucket

import (
	"strings"
	"unicode/utf8"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

var errOddName = &server.StatusError{Code: wire.BadMessage,
	Message: "object storage cannot list a name with control characters or bytes that are not " +
		"UTF-8: rename the file"}

// listable returns an error unless XML, in which S3 lists, can carry a key: an object would be
// stored, and listed by another name.
func listable(key string) error {
	if !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool {
		return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0xfffe || r == 0xffff
	}) {
		return errOddName
	}
	return nil
}
