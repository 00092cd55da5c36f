package transfer

import (
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
)

// Some hosts show a new file when it is closed, and keep what has come of it if it never is: the
// target itself can then be written, without a temporary name. docs/uploads.md describes it.

// hides reports whether a file is written so. One that replaces another could not be gone on with;
// one that is proved after it was closed, by its hash, needs a name for that.
func hides(c *fileCopy, o *remoteOutput) bool {
	return o.info == nil && !o.untold && !o.link && !o.direct && o.end.atomic(c) && !c.verifies() &&
		c.options.List == nil && private.OfClient(o.session.client).KeepsUploads()
}

// lookBehind finds out whether what has the target's name is an upload that is not complete: for all
// others there is no file.
func lookBehind(o *remoteOutput) error {
	client := private.OfClient(o.session.client)
	if o.info == nil || !o.info.Mode().IsRegular() || !client.KeepsUploads() {
		return nil
	}
	_, err := client.Upload(o.name)
	switch {
	case err == nil:
		o.info = nil
	case !endpoint.Refused(err):
		return err
	}
	return nil
}

// stillUpload returns an error if what was just opened to go on with may be a file that everybody
// sees: it was completed, or somebody else has made one.
func stillUpload(o *remoteOutput, m *mark) error {
	if !m.Hidden {
		return nil
	}
	_, err := private.OfClient(o.session.client).Upload(m.Temporary)
	return err
}
