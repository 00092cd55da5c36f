package verb

import (
	"errors"
	"path"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// Verbs that change trees must not be led out of them by somebody who replaces a directory with a
// link meanwhile. A host that has beneath@usftp follows no link in a tree (docs/beneath.md). On
// others the walk looks at each directory once it has listed it, and what replaces it after that is
// followed: plain SFTP knows no other way.

// guard makes sure that nothing beneath an operand is reached through a link. An operand that is
// a link is followed if follows is set.
func (w *walk) guard(d *dir, follows bool) {
	above := d.path
	switch base := path.Base(above); {
	case strings.HasSuffix(above, "/"): // which follows a link, too
	case follows || base == "." || base == "..":
		above += "/"
	default:
		above = above[:strings.LastIndexByte(above, '/')+1]
		d.looks = true
	}
	d.client, d.guarded = private.OfClient(w.client).Beneath(strings.TrimSuffix(w.at(above+"x"), "x"))
	d.looks = d.looks && !d.guarded
}

// clientFor returns the client for requests on an entry of a directory, or on an operand, for which
// in is nil. If that is a directory, below, it may have been replaced since it was looked at, too.
func (j *job) clientFor(in, below *dir) *usftp.Client {
	switch {
	case in != nil:
		return in.client
	case below != nil:
		return below.client
	}
	return j.client
}

var errLinkInWay = errors.New("a symbolic link has taken its place, and is not followed")

// look looks at a directory whose entries were listed, and returns what waits for that and says why
// nothing may be done there. It starts without waiting: directories on the way down are being listed
// already.
func (w *walk) look(d *dir, entries []*entry) (moved func() error) {
	if !d.looks || len(entries) == 0 {
		return nil
	}
	look := private.OfClient(d.client.WithContext(w.ctx)).StartLook(w.at(d.path))
	return func() error {
		if info, err := look(); err == nil && !info.IsDir() {
			return errLinkInWay
		}
		return nil
	}
}
