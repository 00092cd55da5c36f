package verb

import (
	"errors"
	"path"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
)

// A verb that changes a tree must not be led out of it by an attacker who replaces a directory with
// a link meanwhile. A host that has beneath@usftp follows no link in a tree (docs/beneath.md). On
// others the walk checks each directory once it has listed it, and a link that replaces it later is
// followed: plain SFTP knows no other way.

// guard makes sure that no file beneath an operand is reached through a link. If follows is set, an
// operand that is a link is followed.
func (w *walk) guard(d *dir, follows bool) {
	above := d.path
	switch base := path.Base(above); {
	case strings.HasSuffix(above, "/"): // the slash follows a link, too
	case follows || base == "." || base == "..":
		above += "/"
	default:
		above = above[:strings.LastIndexByte(above, '/')+1]
		d.looks = true
	}
	d.client, d.guarded = private.OfClient(w.client).Beneath(strings.TrimSuffix(w.at(above+"x"), "x"))
	d.looks = d.looks && !d.guarded
}

// clientFor returns the client for requests on an entry of a directory, or on an operand if in is
// nil. If the operand is a directory, below, it too may have been replaced since it was checked.
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

// look checks a directory whose entries were listed. It returns a function that waits for the
// answer and returns an error if the directory must not be changed. It starts without waiting:
// directories on the way down are being listed already.
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
