package verb

import (
	"context"
	"errors"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// ChangeModeOptions are the options of chmod.
type ChangeModeOptions struct {
	Recursive bool
	Mode      string // octal or symbolic
}

// ChangeMode implements chmod. It follows links given as operands, and leaves links below a
// directory alone.
func ChangeMode(ctx context.Context, env *Env, o ChangeModeOptions, names []string) error {
	mode, err := parseMode(o.Mode)
	if err != nil {
		return usage("%w", err)
	}
	j := env.begin(ctx)
	c := &changer{job: j, recursive: o.Recursive, follow: followAlways}
	c.change = func(e *entry, name string) {
		if e.isLink() && c.in != nil {
			if j.Verbose && !j.JSON {
				c.ops.add(func() {
					j.line("neither symbolic link ", j.quoted(name),
						" nor referent has been changed")
				})
			}
			return
		}
		was := e.stat.Mode & allModeBits
		to := mode.apply(was, e.isDir())
		if !e.stat.HasMode() && !mode.octal {
			j.fail("change the mode of", name, errors.New("the server does not report its mode: give the new one in octal"))
			return
		}
		client := j.clientFor(c.in, c.below)
		pending := client.Async().Chmod(j.at(name), wire.FileMode(to))
		c.ops.add(func() {
			_, err := pending.Wait()
			if err == nil && was != to && !c.proved {
				// one check is enough: the answer depends on the server, not on the file
				err = pretends(client, j.at(name), func(is usftp.FileStat) bool {
					return is.HasMode() && (is.Mode^to)&0o777 != 0
				})
				c.proved = err == nil
			}
			if err != nil {
				j.fail("change the mode of", name, err)
				return
			}
			text := "mode of " + j.quoted(name)
			if was == to {
				text += " retained as " + modeText(to)
			} else {
				text += " changed from " + modeText(was) + " to " + modeText(to)
			}
			j.done("changed", name, "", text)
		})
	}
	c.run(names)
	return j.end()
}

// pretends returns an error if a server has claimed to set an attribute and has not. It asks
// servers that are not known to be honest.
func pretends(client *usftp.Client, at string, differs func(is usftp.FileStat) bool) error {
	if private.OfClient(client).KnowsLinks() {
		return nil
	}
	if info, err := client.Stat(at); err == nil && differs(statOf(info)) {
		return errors.New("the server says that it is done, but nothing has changed")
	}
	return nil
}

// modeText returns a mode as chmod -v prints it.
func modeText(mode uint32) string {
	return octal(mode) + " (" + permissions(mode) + ")"
}

// A changer changes the attributes of files and of everything below directories. A directory is
// changed before its contents.
type changer struct {
	*job
	recursive bool
	follow    follow
	owners    bool // change needs the names of owners
	change    func(e *entry, name string)
	in        *dir // holds the file being changed; nil for an operand
	below     *dir // the file, if it is a directory
	proved    bool // a change has been confirmed
	ops       pipeline
}

func (c *changer) run(names []string) {
	found := c.lookup(names, c.follow, nil)
	var prepare func(*dir, []*entry)
	if c.owners {
		c.names.learn(c.ctx, c.client, found)
		prepare = func(_ *dir, entries []*entry) { c.names.learn(c.ctx, c.client, entries) }
	}
	w := &walk{job: c.job, prepare: prepare, enter: c.listed, again: c.ops.drain,
		changes: true, follows: c.follow == followAlways,
		descend: func(*dir) bool { return c.recursive },
		each: func(in *dir, e *entry, below *dir) error {
			c.in, c.below = in, below
			c.change(e, pathIn(in, e))
			return c.err
		},
	}
	w.run(found)
	c.ops.drain()
}
