package transfer_test

import (
	"context"
	"io"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/pool"
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
