package library

import (
	"fmt"
	"io"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// PkgSFTP is one choice of pkg/sftp's settings. The zero value is its default.
type PkgSFTP struct {
	// Packet is the payload of one READ or WRITE in bytes; 0 leaves the default of 32 KiB.
	Packet int
	// Requests bounds the requests in flight for one file; 0 leaves the default of 64.
	Requests int
	// ConcurrentWrites allows several WRITEs in flight, which pkg/sftp leaves off unless asked.
	ConcurrentWrites bool
}

// Default is pkg/sftp as it comes.
var Default = PkgSFTP{}

// The settings that won the sweeps: BenchmarkSweepPipe over pipes, BenchmarkSweepSSH over
// x/crypto/ssh. 261120 is the largest payload that OpenSSH's sftp-server reads or writes at once.
var (
	BestPipe = PkgSFTP{Packet: 261120, Requests: 64, ConcurrentWrites: true}
	BestSSH  = PkgSFTP{Packet: 128 << 10, Requests: 64, ConcurrentWrites: true}
)

func (s PkgSFTP) String() string {
	if s == Default {
		return "defaults"
	}
	return fmt.Sprintf("MaxPacketUnchecked(%d), MaxConcurrentRequestsPerFile(%d), UseConcurrentWrites(%t)",
		s.Packet, s.Requests, s.ConcurrentWrites)
}

func (s PkgSFTP) options() []sftp.ClientOption {
	var options []sftp.ClientOption
	if s.Packet > 0 {
		options = append(options, sftp.MaxPacketUnchecked(s.Packet))
	}
	if s.Requests > 0 {
		options = append(options, sftp.MaxConcurrentRequestsPerFile(s.Requests))
	}
	if s.ConcurrentWrites {
		options = append(options, sftp.UseConcurrentWrites(true))
	}
	return options
}

// Library makes a contestant of these settings.
func (s PkgSFTP) Library(name string) Library { return pkgSFTP(name, s, s) }

func pkgSFTP(name string, overPipe, overSSH PkgSFTP) Library {
	wrap := func(client *sftp.Client, err error) (Client, error) {
		if err != nil {
			return nil, err
		}
		return pkgClient{client}, nil
	}
	settings := overPipe.String()
	if overSSH != overPipe {
		settings = "over pipes " + settings + "; over SSH " + overSSH.String()
	}
	return Library{
		Name:     name,
		Settings: settings,
		OverPipe: func(r io.Reader, w io.WriteCloser) (Client, error) {
			return wrap(sftp.NewClientPipe(r, w, overPipe.options()...))
		},
		OverSSH: func(conn *ssh.Client) (Client, error) {
			return wrap(sftp.NewClient(conn, overSSH.options()...))
		},
	}
}

type pkgClient struct{ client *sftp.Client }

// pkg/sftp returns a typed nil together with an error, so the error decides.
func (c pkgClient) Open(path string) (File, error) {
	f, err := c.client.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c pkgClient) Create(path string) (File, error) {
	f, err := c.client.Create(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (c pkgClient) Close() error { return c.client.Close() }
