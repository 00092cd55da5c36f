//go:build unix

package endpoint_test

import (
	"context"
	"io"
	"net"
	"os/exec"
	"path"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/quirks"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/wire"
)

const (
	openSSH = "SSH-2.0-OpenSSH_9.6"
	ours    = "SSH-2.0-usftp"
)

// newClient returns a client over a stream. version is what the server says about itself.
func newClient(t *testing.T, in io.WriteCloser, out io.Reader, version string) *usftp.Client {
	t.Helper()
	var options []usftp.ClientOption
	if version != "" {
		options = append(options, usftp.WithServerVersion(version))
	}
	client, err := usftp.NewClientPipe(out, in, options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// onHost opens a client's files.
func onHost(client *usftp.Client) endpoint.Opener {
	return endpoint.OnHost{Host: &pool.Host{Client: client}}
}

// writes opens a client's files to be written.
func writes(client *usftp.Client) endpointtest.Write {
	q := new(quirks.Quirks)
	return func(name string, flag int) (endpoint.Writer, error) {
		f, err := client.OpenFile(name, flag, 0o600)
		return &endpoint.HostWriter{File: f, Quirks: q}, err
	}
}

// newHost returns the place that a client leads to, and what ends its context.
func newHost(t *testing.T, host pool.Host, retry pool.Retry) (*endpoint.Host, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	host.Name = "far"
	return endpoint.NewHost(ctx, pool.NewConn(ctx, host, retry), func(string, pool.Attempt) {}),
		cancel
}

// serveOurs serves a directory with our own server.
func serveOurs(t *testing.T, serve func(dir string) (*osfs.FS, error), dir string,
	policy server.Policy) *usftp.Client {
	t.Helper()
	files, err := serve(dir)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		server.Serve(context.Background(), far, files, &server.Options{Policy: policy})
	}()
	client := newClient(t, near, near, ours)
	t.Cleanup(func() {
		client.Close()
		<-served
		files.Close()
	})
	return client
}

func TestOurServer(t *testing.T) {
	for name, denied := range map[string][]string{"beneath": nil, "plain": {"beneath"},
		"atomic": nil, "no attributes": {"beneath", "setstat", "fsetstat", "lsetstat"}} {
		serve := osfs.New
		if name == "atomic" {
			serve = osfs.NewAtomic
		}
		t.Run(name, func(t *testing.T) {
			endpointtest.Run(t, func(t *testing.T) *endpointtest.Fixture {
				dir := realDir(t)
				client := serveOurs(t, serve, dir, server.Policy{Denied: denied})
				host, end := newHost(t, pool.Host{Client: client}, pool.Retry{})
				return &endpointtest.Fixture{Place: host, Opener: onHost(client), Write: writes(client), Dir: "/",
					Host: true, End: end, Raw: denied == nil, Whole: name == "atomic", NoTimes: len(denied) > 1, NoLinkSet: len(denied) > 1,
					Disk: endpointtest.Directory(t, dir)}
			})
		})
	}
}

func TestOpenSSH(t *testing.T) {
	program := opensshd.Find(t, "sftp-server")
	for name, c := range map[string]struct {
		version string
		flags   []string
	}{"known": {version: openSSH}, "unknown": {},
		"no attributes": {openSSH, []string{"-P", "setstat,fsetstat,lsetstat"}}} {
		t.Run(name, func(t *testing.T) {
			endpointtest.Run(t, func(t *testing.T) *endpointtest.Fixture {
				cmd := exec.Command(program, append(c.flags, "-u", "022")...)
				in, out := testenv.Pipes(t, cmd)
				client := newClient(t, in, out, c.version)
				t.Cleanup(func() {
					client.Close()
					cmd.Wait()
				})
				host, end := newHost(t, pool.Host{Client: client}, pool.Retry{})
				dir := realDir(t)
				return &endpointtest.Fixture{Place: host, Opener: onHost(client), Write: writes(client), Dir: dir,
					Host: true, End: end, Raw: c.version != "", NoTimes: c.flags != nil, NoLinkSet: c.flags != nil,
					Disk: endpointtest.Directory(t, dir)}
			})
		})
	}
}

// without returns OpenSSH's extensions but for some.
func without(names ...string) (left []wire.ExtensionPair) {
	left = []wire.ExtensionPair{}
	for _, e := range sftptest.OpenSSHExtensions() {
		kept := true
		for _, name := range names {
			kept = kept && e.Name != name
		}
		if kept {
			left = append(left, e)
		}
	}
	return left
}

// refuse answers requests of a type with PERMISSION_DENIED.
func refuse(types ...wire.Type) (faults []sftptest.Fault) {
	for _, t := range types {
		faults = append(faults, sftptest.Fault{On: t,
			Do: sftptest.Refuse(wire.PermissionDenied, "no")})
	}
	return faults
}

// textual answers REALPATH without looking at the files, as servers made with pkg/sftp do.
func textual(r sftptest.Request) []sftptest.Action {
	if r.Type != wire.TypeRealpath {
		return nil
	}
	name := path.Join("/", r.Path)
	return []sftptest.Action{sftptest.ReplyBytes(string(
		wire.Names{Names: []wire.Name{{Filename: name, LongName: name}}}.Append(nil, r.ID)))}
}

// Servers that do not do all that OpenSSH's does.
func TestOtherServers(t *testing.T) {
	for name, c := range map[string]struct {
		script  sftptest.Script
		version string
		traits  endpointtest.Fixture
	}{
		"like OpenSSH": {version: openSSH, traits: endpointtest.Fixture{Raw: true}},
		"no extensions": {script: sftptest.Script{Extensions: []wire.ExtensionPair{}},
			traits: endpointtest.Fixture{NoHard: true, NoLinkSet: true}},
		"textual real paths": {script: sftptest.Script{Extensions: []wire.ExtensionPair{},
			Intercept: textual},
			traits: endpointtest.Fixture{Textual: true, NoHard: true, NoLinkSet: true}},
		"no real paths": {script: sftptest.Script{Faults: refuse(wire.TypeRealpath)},
			traits: endpointtest.Fixture{Textual: true, NoReal: true}},
		"no attributes": {script: sftptest.Script{Extensions: without(wire.ExtLsetstat),
			Faults: refuse(wire.TypeSetstat, wire.TypeFsetstat)},
			traits: endpointtest.Fixture{NoTimes: true, NoLinkSet: true}},
		"follows links": {script: sftptest.Script{FollowLinks: true,
			Extensions: without(wire.ExtLsetstat)}, traits: endpointtest.Fixture{NoLinkSet: true}},
		"follows links, lists names only": {script: sftptest.Script{FollowLinks: true,
			BareListings: true, Extensions: without(wire.ExtLsetstat)},
			traits: endpointtest.Fixture{NoLinkSet: true}},
		"lists names only":      {script: sftptest.Script{BareListings: true}, version: openSSH},
		"few names a reply":     {script: sftptest.Script{ReaddirNames: 3}},
		"rich codes, reordered": {script: sftptest.Script{RichCodes: true, Reorder: 5, Seed: 1}},
		"one handle":            {script: sftptest.Script{SharedHandles: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			endpointtest.Run(t, func(t *testing.T) *endpointtest.Fixture {
				server := sftptest.NewServer(t, c.script)
				server.Files.Mkdir("/top")
				end := server.Dial(sftptest.LinkConfig{})
				client := newClient(t, end, end, c.version)
				t.Cleanup(func() { client.Close() })
				host, stop := newHost(t, pool.Host{Client: client}, pool.Retry{})
				f := c.traits
				f.Place, f.Opener, f.Write, f.Dir = host, onHost(client), writes(client), "/top"
				f.Host, f.End = true, stop
				f.Disk = endpointtest.Memory(t, server.Files, "/top")
				return &f
			})
		})
	}
}
