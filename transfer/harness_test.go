package transfer_test

import (
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// way is the pair of endpoints that a test copies between.
type way int

const (
	upload way = iota
	download
	relay
	local
)

func (w way) String() string { return [...]string{"upload", "download", "relay", "local"}[w] }

// endpoints returns the endpoints of a copy: on a host where the way says so, and streams if given.
func (w way) endpoints(host, from pool.Host, source, target string, r io.Reader,
	out io.Writer) (dst, src transfer.Endpoint) {
	dst, src = transfer.Local(target), transfer.Local(source)
	if w == upload || w == relay {
		dst = transfer.Remote(host, target)
	}
	switch w {
	case download:
		src = transfer.Remote(host, source)
	case relay:
		src = transfer.Remote(from, source)
	}
	if r != nil {
		src = transfer.Reader(r)
	}
	if out != nil {
		dst = transfer.Writer(out)
	}
	return dst, src
}

// copyJob is a call of Copy, for tests that vary some of it.
type copyJob struct {
	Host, From     pool.Host
	Direction      way
	Source, Target string
	Reader         io.Reader
	Writer         io.Writer
	Options        transfer.Options
}

func (j *copyJob) Run(ctx context.Context) (transfer.Result, error) {
	dst, src := j.Direction.endpoints(j.Host, j.From, j.Source, j.Target, j.Reader, j.Writer)
	return transfer.Copy(ctx, dst, src, j.Options)
}

// treeJob is a call of CopyTree.
type treeJob struct {
	Host, From     pool.Host
	Direction      way
	Source, Target string
	Options        transfer.Options
	TreeOptions    transfer.TreeOptions
}

func (t *treeJob) Run(ctx context.Context) (transfer.Summary, error) {
	dst, src := t.Direction.endpoints(t.Host, t.From, t.Source, t.Target, nil, nil)
	o := t.TreeOptions
	o.Options = t.Options
	return transfer.CopyTree(ctx, dst, src, o)
}

// checkJob is a call of Check.
type checkJob struct {
	Host        pool.Host // without a Client: this machine
	Dir         string
	List        *checksum.List
	Strict      bool
	Options     transfer.Options
	TreeOptions transfer.TreeOptions
}

func (c *checkJob) Run(ctx context.Context) (transfer.Summary, error) {
	dir := transfer.Local(c.Dir)
	if c.Host.Client != nil {
		dir = transfer.Remote(c.Host, c.Dir)
	}
	o := transfer.CheckOptions{TreeOptions: c.TreeOptions, Strict: c.Strict}
	o.Options = c.Options
	return transfer.Check(ctx, dir, c.List, o)
}

func uploadFile(ctx context.Context, host pool.Host, source, target string,
	o transfer.Options) (transfer.Result, error) {
	return transfer.Copy(ctx, transfer.Remote(host, target), transfer.Local(source), o)
}

func downloadFile(ctx context.Context, host pool.Host, source, target string,
	o transfer.Options) (transfer.Result, error) {
	return transfer.Copy(ctx, transfer.Local(target), transfer.Remote(host, source), o)
}

func relayFile(ctx context.Context, from pool.Host, source string, to pool.Host, target string,
	o transfer.Options) (transfer.Result, error) {
	return transfer.Copy(ctx, transfer.Remote(to, target), transfer.Remote(from, source), o)
}

func uploadTree(ctx context.Context, host pool.Host, source, target string,
	o transfer.Options) (transfer.Summary, error) {
	return transfer.CopyTree(ctx, transfer.Remote(host, target), transfer.Local(source),
		transfer.TreeOptions{Options: o})
}

func downloadTree(ctx context.Context, host pool.Host, source, target string,
	o transfer.Options) (transfer.Summary, error) {
	return transfer.CopyTree(ctx, transfer.Local(target), transfer.Remote(host, source),
		transfer.TreeOptions{Options: o})
}

func relayTree(ctx context.Context, from pool.Host, source string, to pool.Host, target string,
	o transfer.Options) (transfer.Summary, error) {
	return transfer.CopyTree(ctx, transfer.Remote(to, target), transfer.Remote(from, source),
		transfer.TreeOptions{Options: o})
}

// bench is a scripted server, a client of it, and a local directory.
type bench struct {
	t      *testing.T
	server *sftptest.Scripted
	host   pool.Host
	dir    string
	events []transfer.Event
}

// tempDir is TempDir for trees with directories that are read-only.
func tempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { writable(dir) })
	return dir
}

// writable lets a user who is not root remove what is in a directory.
func writable(dir string) {
	filepath.WalkDir(dir, func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			os.Chmod(name, 0o700)
		}
		return nil
	})
}

func newBench(t *testing.T, script sftptest.Script, link sftptest.LinkConfig,
	options ...usftp.ClientOption) *bench {
	t.Helper()
	b := &bench{t: t, server: sftptest.NewServer(t, script), dir: tempDir(t)}
	b.host = connect(t, b.server.Dial(link), options...)
	return b
}

// connect returns a host at the other end of a stream.
func connect(t *testing.T, stream io.ReadWriteCloser, options ...usftp.ClientOption) pool.Host {
	t.Helper()
	client, err := usftp.NewClientPipe(stream, stream, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return pool.Host{Client: client, Name: "far"}
}

// redialed returns a host that dial connects to, at once and whenever the connection is lost.
func redialed(t *testing.T, name string, dial func() (*usftp.Client, error)) pool.Host {
	t.Helper()
	redial := func(context.Context) (pool.Host, error) {
		client, err := dial()
		if err == nil {
			t.Cleanup(func() { client.Close() })
		}
		return pool.Host{Client: client, Name: name}, err
	}
	host, err := redial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host.Redial = redial
	return host
}

// What a client takes its server for: one that is known to work in order, or ours.
var (
	inOrder = usftp.WithServerVersion("SSH-2.0-OpenSSH_9.6")
	ours    = usftp.WithServerVersion("SSH-2.0-usftp")
)

// serve serves files at the other end of a stream. The test waits for the end of the session.
func serve(t *testing.T, files server.FS, o *server.Options) (stream net.Conn,
	ended chan struct{}) {
	near, far := net.Pipe()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(context.Background(), far, files, o)
	}()
	t.Cleanup(func() {
		near.Close()
		<-ended
	})
	return near, ended
}

func (b *bench) job(direction way, source, target string,
	change ...func(*copyJob)) (transfer.Result, error) {
	return b.jobContext(context.Background(), direction, source, target, change...)
}

func (b *bench) jobContext(ctx context.Context, direction way, source, target string,
	change ...func(*copyJob)) (transfer.Result, error) {
	b.events = nil
	j := copyJob{Host: b.host, Direction: direction, Source: source, Target: target}
	j.Options.Events = func(e transfer.Event) { b.events = append(b.events, e) }
	for _, f := range change {
		f(&j)
	}
	return j.Run(ctx)
}

func (b *bench) local(name string, data []byte) string {
	b.t.Helper()
	name = filepath.Join(b.dir, name)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		b.t.Fatal(err)
	}
	return name
}

func (b *bench) remote(name string) []byte {
	b.t.Helper()
	data, err := b.server.Files.ReadFile(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

func (b *bench) read(name string) []byte {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return data
}

// arrived returns the contents of the target: "/target" on the host, "target" here.
func (b *bench) arrived(direction way) []byte {
	b.t.Helper()
	if direction == upload {
		return b.remote("/target")
	}
	return b.read("target")
}

// temporaries returns the names on the host and in the directory that look temporary.
func (b *bench) temporaries() (names []string) {
	for _, name := range b.server.Files.List() {
		if strings.Contains(name, ".usftp-") {
			names = append(names, name)
		}
	}
	entries, _ := os.ReadDir(b.dir)
	for _, e := range entries {
		if strings.Contains(e.Name(), ".usftp-") {
			names = append(names, e.Name())
		}
	}
	return names
}

func (b *bench) notes() (notes []string) {
	for _, e := range b.events {
		if e.Kind == transfer.Note || e.Kind == transfer.Warning {
			notes = append(notes, e.Message)
		}
	}
	return notes
}

// newTreeBench is newBench with a server that is known to work in order.
func newTreeBench(t *testing.T, script sftptest.Script, link sftptest.LinkConfig) *bench {
	t.Helper()
	return newBench(t, script, link, inOrder)
}

func (b *bench) tree(direction way, source, target string,
	change ...func(*treeJob)) (transfer.Summary, error) {
	b.events = nil
	tree := treeJob{Host: b.host, Direction: direction, Source: source, Target: target}
	tree.Options.Events = func(e transfer.Event) { b.events = append(b.events, e) }
	for _, f := range change {
		f(&tree)
	}
	return tree.Run(context.Background())
}

// kinds returns the sources of a kind's events about entries, relative to prefix.
func (b *bench) kinds(kind transfer.Kind, prefix string) (names []string) {
	for _, e := range b.events {
		if e.Kind == kind && e.Totals == nil {
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(e.Source, prefix), "/"))
		}
	}
	slices.Sort(names)
	return names
}

// A syncJob is a call of Sync.
type syncJob struct {
	direction way
	far       pool.Host
	src, dst  string
	options   transfer.SyncOptions
	events    []transfer.Event
}

func (j *syncJob) run(t *testing.T) (transfer.Summary, error) {
	t.Helper()
	j.events = nil
	j.options.Events = func(e transfer.Event) { j.events = append(j.events, e) }
	dst, src := j.direction.endpoints(j.far, j.far, j.src, j.dst, nil, nil)
	return transfer.Sync(t.Context(), dst, src, j.options)
}

// must runs a sync that must succeed.
func (j *syncJob) must(t *testing.T) transfer.Summary {
	t.Helper()
	s, err := j.run(t)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// told returns the reasons of the events of a kind, by path below the target.
func (j *syncJob) told(kind transfer.Kind) map[string]transfer.Reason {
	all := make(map[string]transfer.Reason)
	for _, e := range j.events {
		if e.Kind == kind && e.Totals == nil {
			name := filepath.ToSlash(strings.TrimPrefix(e.Target, j.dst))
			all[strings.TrimPrefix(name, "/")] = e.Reason
		}
	}
	return all
}

// rules is a filter of patterns that exclude, or include after "+ ".
func rules(patterns ...string) (list []transfer.FilterRule) {
	for _, pattern := range patterns {
		list = transfer.AppendFilter(list, pattern, false)
	}
	return list
}
