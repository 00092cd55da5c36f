package filecopy

import (
	"os"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/private"
)

// client returns the client for the directory of a file on a host.
func (o onHost) client() *usftp.Client { return o.files.(*endpoint.HostFiles).Client }

// host returns an open file on a host.
func (o onHost) host() *endpoint.HostWriter { return o.writer.(*endpoint.HostWriter) }

// upload copies the contents to a host, over several handles where that helps.
func (o onHost) upload(c *Copy, in *input) error {
	if o.whole.budget != nil {
		o.finished = true
		return o.whole.load(c, in)
	}
	if c.IsSmall() {
		if o.over <= c.Listed.Size && !c.Options.Sync { // otherwise it has to be truncated
			if o.hidden { // CLOSE gives it its name
				if err := c.MayCommit(); err != nil {
					return err
				}
			}
			done, err := o.fillSmall(c, in)
			if done || err != nil {
				return o.explain(err)
			}
		}
		c.known.large = true
		if err := in.ready(); err != nil {
			return err
		}
	}
	if c.hashes() {
		c.hashing.start(c, in.reopen())
	}
	n, err := o.send(c, in)
	c.Result.Bytes = c.Result.Resumed + n
	return o.explain(err)
}

func (o onHost) send(c *Copy, in *input) (int64, error) {
	if o.info != nil && o.temp != "" {
		if n, done, err := o.sendDelta(c, in); done || err != nil {
			return n, err
		}
	}
	f, resumed := o.host().File, c.Result.Resumed
	defer c.watch(func() int64 { return resumed + f.Progress() })()
	if n, done, err := in.copyOn(f); done {
		return n, err
	}
	source := in.info()
	in.sends = true
	if local, ok := in.own().(*endpoint.LocalFile); ok {
		if s := findHoles(c, in, local); s != nil {
			return o.sendSparse(c, s)
		}
	}
	// until data lies beyond the old size, nothing shows whether handles see each other's data
	if !source.IsRegular() || o.over >= source.Size && o.over > 0 ||
		!c.to.worthStriping(c, source.Size-max(resumed, o.over), false) {
		return c.to.judge(c, f, func() (int64, int, error) {
			n, err := f.ReadFrom(in)
			return n, 1, err
		})
	}
	s := c.to.stripe(c, f,
		endpoint.Striping{Flag: os.O_WRONLY, From: resumed, Size: source.Size, Over: o.over})
	o.host().Striper = s
	n, err := c.to.judge(c, f, func() (int64, int, error) {
		n, err := s.ReadFromAt(in)
		return n, 1 + s.Count(), err
	})
	c.Result.Stripes = s.Joined()
	return n, err
}

// fillSmall reads, writes, finishes and closes a small file. done is false if the file is no longer
// as listed.
func (o onHost) fillSmall(c *Copy, in *input) (done bool, err error) {
	size, memory := c.Listed.Size, c.Budget.memory
	memory.take(size)
	defer memory.give(size)
	wait, err := o.startSmall(c, in)
	if err != nil || wait == nil {
		return false, err
	}
	notSet, err := wait()
	c.slot.free() // not before: OPENs overtake the data that CLOSE follows
	if err == nil && notSet != nil {
		err = o.smallRefused(c, notSet, in.info())
	}
	if err == nil {
		err = finisher{o.output, c}.proved()
	}
	if err != nil {
		return true, err
	}
	o.finished = true
	c.Result.Bytes = size
	return true, c.Limiter.Wait(int(size))
}

// smallRefused sets a small file's attributes by its path after they were refused. It is not
// inlined, to keep the stacks of thousands of files small.
//
//go:noinline
func (o onHost) smallRefused(c *Copy, refusal error, source *endpoint.Info) error {
	if !endpoint.Refused(refusal) {
		if c.Options.Preserve || c.Options.Owners {
			return refusal
		}
		return nil
	}
	set, err := finisher{o.output, c}.attrs(source)
	if err != nil {
		return err
	}
	f := endpoint.Finish{Set: set, Own: o.own()}
	return finisher{o.output, c}.told(o.host().SetByPath(&f, refusal))
}

// startSmall reads a small file and starts writing it. It frees the file's memory before it
// returns, since the client holds the data in flight. wait is nil if the file is no longer as
// listed.
func (o onHost) startSmall(c *Copy, in *input) (wait func() (notSet, err error),
	err error) {
	if same, err := in.load(); err != nil || !same {
		return nil, err
	}
	defer in.small.release()
	set, err := finisher{o.output, c}.attrs(in.info())
	if err != nil {
		return nil, err
	}
	finisher{o.output, c}.looks(set)
	if c.hashes() {
		c.hashing.small(c, in.small.data)
	}
	return private.OfFile(o.host().File).StartWriteClose(in.small.data, set), nil
}
