package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/private"
)

// remoteOutput is a file on a host being written.
type remoteOutput struct {
	location
	end     *remoteTarget
	session *session
	file    *usftp.File
	striper *striper // until seal
	delta   *delta   // nil if the whole file is sent
	sealed  bool
	over    int64 // size of the old file that is written over in place; 0 if there is none
}

func (o *remoteOutput) close() {
	if o.striper != nil {
		o.striper.stop()
		o.striper = nil
	}
	o.delta.close()
}

func (o *remoteOutput) rereads(c *fileCopy, in input) reopen { return in.reopen(c) }

func (o *remoteOutput) holds(c *fileCopy, in input) (same, told bool) {
	return o.session.holds(c.hashing.digests, o.name, nil)
}

func (o *remoteOutput) verify(c *fileCopy, in input) error {
	if c.delta != nil {
		return c.delta.verify()
	}
	return o.session.verify(c, o.written(), nil, in.reopen(c))
}

// same makes sure that a file does not overwrite itself.
func (o *remoteOutput) same(c *fileCopy, in input) error {
	if c.entry != nil || o.info == nil || c.from != c.to {
		return nil
	}
	source, err := o.session.client.RealPath(c.source)
	if err != nil {
		return nil
	}
	if to, err := o.session.client.RealPath(o.name); err == nil && to == source {
		return errSameFile
	}
	return nil
}

// create creates the temporary file, or opens the target if it is to be written in place.
func (o *remoteOutput) create(c *fileCopy, in input) (err error) {
	source, client := in.facts(), o.session.client
	perm, denied := fs.FileMode(0o666), false
	if source.hasMode {
		perm = source.mode.Perm()
	}
	if !o.direct && o.end.atomic(c) {
		temporary := path.Join(path.Dir(o.name), c.token.Name(path.Base(o.name)))
		c.journal.noteBefore(c, temporary)
		private := perm
		if o.info != nil || c.options.Preserve {
			// until it gets its final permissions
			private = 0o600
		}
		lost := o.session.lost()
		o.file, err = client.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, private)
		c.tries.made = temporary
		if err == nil {
			o.temp = temporary
			return nil
		}
		if c.interrupted() {
			if !lost { // the server may have created it
				ctx, cancel := cleanupContext(c.ctx)
				defer cancel()
				removeTemporary(ctx, c, temporary)
			}
			return err
		}
		if err := o.end.fallBack(c, o.session.explainWrite(err, path.Dir(o.name))); err != nil {
			return err
		}
		denied = true
	}
	if c.options.Placement == PlaceAtomic {
		return &fs.PathError{Op: "replace", Path: o.name,
			Err: errors.New("it is not a regular file and can only be written in place")}
	}
	// If no target exists, nothing can be harmed, and the reason most likely lies in the directory:
	// opening the target itself yields an error with the name the user knows.
	o.file, err = inPlace{o, c, source, perm}.open()
	if err == nil && denied {
		o.end.nameRefused(c, o.info == nil)
	}
	return o.session.explainWrite(err, path.Dir(o.name))
}

// left reports whether an earlier run for this target may have left a file of this name.
func (o *remoteOutput) left(name string) bool {
	return path.Dir(name) == path.Dir(o.name) &&
		strings.HasPrefix(path.Base(name), localfs.TempPrefix(path.Base(o.name)))
}

func (o *remoteOutput) discard(name string) error { return o.session.client.Remove(name) }

func (o *remoteOutput) restore(c *fileCopy, aside string) {
	if _, old := localfs.OldNameOf(path.Base(aside)); !old || !o.left(aside) {
		return
	}
	client := o.session.client
	if err := takeBack(client, aside, o.name); err != nil {
		c.warn(fmt.Sprintf("the file that an interrupted copy was to replace is still called %s: %s",
			c.shown(aside), plain(err)))
		return
	}
	if o.info == nil {
		if info, err := client.Lstat(o.name); err == nil {
			o.info = info
		}
	}
}

// resume opens what an earlier run left, and proves it by the host's hash or by reading back its
// end.
func (o *remoteOutput) resume(c *fileCopy, in input, m *mark) (int64, error) {
	f, err := o.session.client.OpenFile(m.Temporary, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, err
	} else if err != nil {
		return 0, fmt.Errorf("it cannot be opened: %s", plain(err))
	}
	if err := proveRemote(c, f, in, m); err != nil {
		f.Close()
		return 0, errors.New(plain(err))
	}
	o.file, o.temp, c.tries.made = f, m.Temporary, m.Temporary
	_, err = f.Seek(m.Bytes, io.SeekStart)
	return m.Bytes, err
}

// proveRemote proves that what is in the file is the beginning of the source, and cuts off the
// rest.
func proveRemote(c *fileCopy, f *usftp.File, in input, m *mark) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() < m.Bytes {
		return errors.New("it is shorter than it was")
	}
	if info.Size() > m.Bytes {
		if err := f.Truncate(m.Bytes); err != nil {
			return fmt.Errorf("it cannot be cut to what is known: %s", plain(err))
		}
	}
	if same, told := c.to.begins(f, in.contents(), m.Bytes); told {
		if !same {
			return errDiffers
		}
		return nil
	}
	length := int64(tail)
	switch {
	case m == c.journal.left:
		length = retriedTail
	case !m.Synced:
		length = unsyncedTail
	}
	off := max(0, m.Bytes-length)
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return err
	}
	_, err = f.WriteTo(&comparer{at: in.contents(), size: m.Bytes, off: off})
	return err
}

// fill copies the contents, over several handles where that helps.
func (o *remoteOutput) fill(c *fileCopy, in input) error {
	dir := path.Dir(o.name)
	if c.isSmall() {
		if o.over <= c.entry.facts.size { // otherwise it has to be cut
			done, err := o.fillSmall(c, in)
			if done || err != nil {
				return o.session.explainWrite(err, dir)
			}
		}
		c.flags.large = true
		if err := in.ready(c); err != nil {
			return ofSource(err)
		}
		c.sized(in)
	}
	c.hashing.start(c, in.reopen(c))
	n, err := o.send(c, in)
	c.result.Bytes = c.result.Resumed + n
	return o.session.explainWrite(err, dir)
}

func (o *remoteOutput) send(c *fileCopy, in input) (int64, error) {
	if n, done, err := o.sendDelta(c, in); done || err != nil {
		return n, err
	}
	f, resumed := o.file, c.result.Resumed
	defer c.watch(func() int64 { return resumed + f.Progress() })()
	if n, done, err := in.copyOn(c, f); done {
		return n, err
	}
	source := in.facts()
	if s := findHoles(c, in); s != nil {
		return o.sendSparse(c, s)
	}
	// until data lies beyond the old size, nothing shows whether handles see each other's data
	if !source.regular() || o.over >= source.size && o.over > 0 ||
		!o.session.worthStriping(c, source.size-max(resumed, o.over), false) {
		return o.session.judge(c, f, func() (int64, int, error) {
			n, err := f.ReadFrom(c.hashing.pipe.reader(c.limiter.reader(in.contents()), resumed))
			return n, 1, err
		})
	}
	s := o.session.stripe(c, f, os.O_WRONLY, resumed, source.size, o.over)
	o.striper = s // until seal
	n, err := o.session.judge(c, f, func() (int64, int, error) {
		n, err := s.stripes.ReadFromAt(c.hashing.pipe.readerAt(in.contents()))
		return n, 1 + s.count(), err
	})
	c.result.Stripes = s.stripes.Joined()
	return n, err
}

// fillSmall reads, writes, finishes and closes a small file. done is false if the file is no longer
// as listed.
func (o *remoteOutput) fillSmall(c *fileCopy, in input) (done bool, err error) {
	size, memory := c.entry.facts.size, c.tree.budget.memory
	memory.take(size)
	defer memory.give(size)
	wait, err := o.startSmall(c, in)
	if err != nil || wait == nil {
		return false, err
	}
	notSet, err := wait()
	c.freeHandle()
	if err != nil {
		return true, err
	}
	o.sealed = true
	c.result.Bytes = size
	if notSet != nil && (c.options.Preserve || c.options.Owners) {
		return true, notSet
	}
	return true, c.limiter.wait(int(size))
}

// startSmall reads a small file and starts writing it. It frees the memory for that before it
// returns, since the client holds what is in flight. wait is nil if the file is no longer as
// listed.
func (o *remoteOutput) startSmall(c *fileCopy, in input) (wait func() (notSet, err error), err error) {
	size := int(c.entry.facts.size)
	data, release := c.tree.budget.buffers.get(size + 1)
	defer release()
	if same, err := in.whole(c, data); err != nil || !same {
		return nil, ofSource(err)
	}
	set, err := sealing{o, c, in}.attrs()
	if err != nil {
		return nil, err
	}
	c.hashing.small(c, data[:size])
	return private.OfFile(o.file).StartWriteClose(data[:size], set), nil
}

// seal finishes the file, unless fillSmall has done so; see [sealing.run].
func (o *remoteOutput) seal(c *fileCopy, in input) error {
	if o.sealed {
		return nil
	}
	return sealing{o, c, in}.run()
}

// cut truncates what was written to the contiguous part. If the connection is lost the next run
// does that.
func (o *remoteOutput) cut(c *fileCopy, n int64) (ok, synced bool) {
	if o.session.lost() {
		return true, false
	}
	ctx, cancel := cleanupContext(c.ctx)
	defer cancel()
	f := o.file.WithContext(ctx)
	synced = f.Truncate(n) == nil && f.Sync() == nil
	f.Async().Close().WaitContext(ctx)
	return true, synced
}

// remove closes the file, and removes it if it is temporary.
func (o *remoteOutput) remove(c *fileCopy) {
	if o.file == nil {
		return
	}
	if o.temp != "" && o.session.lost() {
		c.result.LeftBehind = o.temp
		c.detail = fmt.Sprintf("%d bytes of it are left in %s", c.result.Bytes, c.shown(o.temp))
		return
	}
	ctx, cancel := cleanupContext(c.ctx)
	defer cancel()
	o.file.Async().Close().WaitContext(ctx)
	if o.temp != "" {
		removeTemporary(ctx, c, o.temp)
	}
}

// removeTemporary removes a useless temporary file, or reports that it is left.
func removeTemporary(ctx context.Context, c *fileCopy, temporary string) {
	if err := c.to.client.WithContext(ctx).Remove(temporary); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		c.result.LeftBehind = temporary
		c.detail = fmt.Sprintf("the temporary file %s could not be removed", c.shown(temporary))
	}
}
