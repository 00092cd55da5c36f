package usftp

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/internal/private/hook"
	"github.com/usftp/usftp/wire"
)

func init() {
	hook.Client = func(c any) any { return privateClient{c.(*Client)} }
	hook.File = func(f any) any { return privateFile{f.(*File)} }
	hook.Untold = untold
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

func (c privateClient) WorksInOrder() bool { return c.inOrder }
func (c privateClient) ReadsOnce() bool    { return readsOnce(c.options.serverVersion) }
func (c privateClient) LosesWrites() bool  { return c.losesWrites() }
func (c privateClient) StartSmall()        { c.session.startsSmall.Store(true) }

func (c privateClient) Touches() bool {
	return strings.HasPrefix(c.options.serverVersion, "SSH-2.0-rclone/")
}

func (c privateClient) EmptiesToCut() bool { return c.emptiesToCut() }

// SetsByName implements private.Client. It is Apache MINA's doFSetStat; Maverick's handles have an
// AbstractFile, which is a path.
func (c privateClient) SetsByName() bool {
	return isMINA(c.options.serverVersion) || isMaverick(c.options.serverVersion)
}

func (c privateClient) StatsByName() bool { return c.SetsByName() || c.noFstat.Load() }

func (c privateClient) LastTime() int64                 { return c.lastTime() }
func (c privateClient) Heard() time.Time                { return c.conn.Heard() }
func (c privateClient) Overdue() (since, end time.Time) { return c.conn.Overdue() }

func (c privateClient) DataSizes() (read, write int, err error) {
	if err := c.awaitLimits(c.ctx); err != nil {
		return 0, 0, err
	}
	read, write = c.dataSizes()
	return read, write, nil
}

func (c privateClient) OneHandle() bool  { return c.conn.OneHandle() }
func (c privateClient) OpenHandles() int { return c.conn.OpenHandles() }

func (f privateFile) HandleLost() bool {
	open, err := f.opening("handle", 0)
	return err == nil && open.client.conn.IsLost(open.handle)
}

func (f privateFile) Waited() time.Duration { return time.Duration(f.waited.Load()) }
func (f privateFile) Answers() int64        { return f.answers.Load() }

func (c privateClient) Beneath(above string) (view *Client, ok bool) {
	if !c.offered(wire.ExtBeneath) {
		return c.Client, false
	}
	return &Client{&session{c.shared, &above}, c.ctx}, true
}

func (c privateClient) Alike(other *Client) *Client {
	if c.above == nil {
		return other
	}
	view, _ := privateClient{other}.Beneath(*c.above)
	return view
}
