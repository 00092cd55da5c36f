package usftp

import (
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/private/hook"
	"github.com/usftp/usftp/wire"
)

func init() {
	hook.Client = func(c any) any { return privateClient{c.(*Client)} }
	hook.File = func(f any) any { return privateFile{f.(*File)} }
	hook.Stripes = func(f any) any { return &stripes{file: f.(*File)} }
	hook.OneHandle = func(host string, shared *atomic.Bool) any {
		return ClientOption(func(o *options) { o.host, o.conn.OneHandle = host, shared })
	}
	hook.FirstRequest = func(start func(any)) any {
		return ClientOption(func(o *options) { o.firstRequest = func(c *Client) { start(c) } })
	}
}

// privateClient and privateFile have the methods for this module's own packages; package private
// documents them.
type (
	privateClient struct{ *Client }
	privateFile   struct{ *File }
)

// WorksInOrder implements private.Client.
func (c privateClient) WorksInOrder() bool { return c.inOrder }

// ReadsOnce implements private.Client.
func (c privateClient) ReadsOnce() bool { return readsOnce(c.options.serverVersion) }

// StartSmall implements private.Client.
func (c privateClient) StartSmall() { c.session.startsSmall.Store(true) }

// Touches implements private.Client.
func (c privateClient) Touches() bool {
	return strings.HasPrefix(c.options.serverVersion, "SSH-2.0-rclone/")
}

// Heard implements private.Client.
func (c privateClient) Heard() time.Time { return c.conn.Heard() }

// DataSizes implements private.Client.
func (c privateClient) DataSizes() (read, write int, err error) {
	if err := c.awaitLimits(c.ctx); err != nil {
		return 0, 0, err
	}
	read, write = c.dataSizes()
	return read, write, nil
}

// OneHandle implements private.Client.
func (c privateClient) OneHandle() bool { return c.conn.OneHandle() }

// HandleLost implements private.File.
func (f privateFile) HandleLost() bool {
	open, err := f.opening("handle")
	return err == nil && open.client.conn.IsLost(open.handle)
}

// Waited implements private.File.
func (f privateFile) Waited() time.Duration { return time.Duration(f.waited.Load()) }

// Answers implements private.File.
func (f privateFile) Answers() int64 { return f.answers.Load() }

// RemovesBeneath implements private.Client.
func (c privateClient) RemovesBeneath() bool { return c.offered(wire.ExtBeneath) }

// RemoveBeneath implements private.Client.
func (c privateClient) RemoveBeneath(top, name string, directory bool) error {
	op, request := "remove", wire.TypeRemove
	if directory {
		op, request = "rmdir", wire.TypeRmdir
	}
	message := wire.Beneath{Request: request, Top: top, Path: name}
	return c.do(c.command(op, path.Join(top, name), message).needs(wire.ExtBeneath))
}

// RenameBeneath implements private.Client.
func (c privateClient) RenameBeneath(top, oldName, newName string) error {
	message := wire.Beneath{Request: wire.TypeRename, Top: top, Path: oldName, NewPath: newName}
	return c.do(c.command2("rename", path.Join(top, oldName), path.Join(top, newName),
		message).needs(wire.ExtBeneath))
}
