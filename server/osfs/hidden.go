package osfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/wire"
)

// hiddenPrefix begins the names of unfinished uploads. It has no letter with a second form in
// Unicode, such as s and k, which file systems that ignore case take for the same.
const hiddenPrefix = ".upload-"

// hiddenLength is the length of such a name. The rest is hexadecimal.
const hiddenLength = len(hiddenPrefix) + 2*16

// hiddenName returns the name, in the same directory, of the unfinished upload of a file. It is a
// hash, since the file's name may have the maximum length, and the same for every server and after
// a restart.
func hiddenName(base string) string {
	sum := sha256.Sum256([]byte(base))
	return hiddenPrefix + hex.EncodeToString(sum[:16])
}

// isHidden reports whether a file system may take a name for an unfinished upload's. Some ignore
// case, and HFS+ some code points as well; so all non-ASCII bytes are skipped here.
func isHidden(name string) bool {
	if len(name) < hiddenLength {
		return false
	}
	var plain [hiddenLength]byte
	n := 0
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 0x80:
			continue
		case n == hiddenLength:
			return false
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		plain[n] = c
		n++
	}
	rest, ok := strings.CutPrefix(string(plain[:n]), hiddenPrefix)
	return ok && len(rest) == 2*16 && strings.Trim(rest, "0123456789abcdef") == ""
}

// Errors of requests about unfinished uploads.
var (
	errHidden = &server.StatusError{Code: wire.PermissionDenied,
		Message: "names of this form belong to unfinished uploads"}
	errUnfinished = errors.New(
		"the upload has not been completed: until then the file cannot be read or renamed")
	errSuperseded = errors.New(
		"the file was begun again or replaced in the meantime, and this upload was given up")
	errBusy = errors.New("another session is uploading the file")
)

// readPatience is the time that an OPEN for reading waits for the file's upload to end. Mounts send
// such an OPEN before the upload's CLOSE: they answer close(2) first.
const readPatience = time.Second

// unfinishedError reports an upload in progress, and can wait for its end.
type unfinishedError struct {
	error
	done <-chan struct{}
}

// ended waits for the upload to end, and reports whether it has.
func (e *unfinishedError) ended(ctx context.Context) bool {
	late := time.NewTimer(readPatience)
	defer late.Stop()
	select {
	case <-e.done:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}
