package filecopy

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// A whole is a small file that gets everything on the host in one request: its temporary name,
// contents, attributes and name (see private.Client.StartPut). Nothing is on the host before the
// commit. If the host refuses any part, the next attempt takes the steps one by one, and deals with
// the refused one.
type whole struct {
	budget *Budget // lends the file's memory; nil if the file takes the steps
	held   int64   // bytes of that memory
	perm   fs.FileMode
	client *usftp.Client
	helped *helped // the host whose helper client is; nil for the host's own server
}

// errNotWhole ends an attempt after which the file takes the steps.
var errNotWhole = errors.New("the host does not take the file in one request")

// goesWhole reports, before a file is read, whether it may be sent in one request. Files that are
// checked or proved between their contents and their name take the steps.
func (o onHost) goesWhole(c *Copy) bool {
	return c.known.tried[stepped] == 0 &&
		c.Listed.Size <= wire.LargestFile &&
		o.tries(c) && !o.direct && !o.link && !o.untold &&
		// whether these stay depends on the new file
		(o.info == nil || o.info.Mode()&endpoint.RunsAs == 0) && c.to != c.from &&
		!c.verifies() && c.Options.List == nil && !c.KeepsOld()
}

// begin chooses the client that puts the file, and its temporary name if it needs one. It returns
// false if the file takes the steps.
func (w *whole) begin(c *Copy, o *output) bool {
	if w.client, w.helped = puts(c, onHost{o}); w.client == nil {
		return false
	}
	if o.hidden = o.hides(c); !o.hidden {
		o.temp = c.Dst.Join(Above(c.Dst, o.name), c.Token.Name(c.Dst.Base(o.name)))
	}
	w.budget, w.perm = c.Budget, 0o666
	if c.from == nil { // otherwise the source may need a handle
		c.slot.free()
	}
	return true
}

// load reads the file.
func (w *whole) load(c *Copy, in *input) error {
	size := c.Listed.Size
	w.budget.memory.take(size)
	w.held = size
	same, err := in.load()
	if err == nil && !same {
		err = errNotWhole
	}
	if err != nil {
		return err
	}
	c.slot.free()
	if c.hashes() {
		c.hashing.small(c, in.small.data)
	}
	c.Result.Bytes = size
	return c.Limiter.Wait(int(size))
}

// put sends the file, and waits until it is in place.
func (w *whole) put(c *Copy, o onHost, in *input) error {
	source := in.info()
	if source.HasMode {
		w.perm = c.Options.Perm(source)
	}
	w.perm = o.until(c, source, w.perm)
	set, err := finisher{o.output, c}.attrs(source)
	if err != nil {
		return err
	}
	temporary := ""
	if c.known.made = o.temp; o.temp != "" { // which stays if the connection is lost
		temporary = c.Dst.Base(o.temp)
	}
	// after the end of the run it would still be carried out
	ctx, done := c.late()
	defer done()
	name := o.name
	if w.helped != nil {
		var cancel func()
		ctx, cancel = w.helped.patient(ctx)
		defer cancel()
		name = w.helped.at(name)
	}
	client := w.client.WithContext(ctx)
	wait := private.OfClient(client).StartPut(name, temporary, in.small.data, w.perm, set,
		c.Options.Sync)
	in.small.release()
	err = wait()
	if w.helped != nil {
		return w.helped.notTaken(c, o.temp, err)
	}
	if endpoint.Refused(err) {
		err = fmt.Errorf("%w: %w", errNotWhole, err)
	}
	return err
}

func (w *whole) close() {
	w.budget.memory.give(w.held)
	*w = whole{}
}
