package site

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/ui"
)

// greet prints where the server is, how to recognize it, and how to connect.
func (s *Site) greet(listeners []net.Listener) error {
	var b strings.Builder
	for _, l := range listeners {
		fmt.Fprintf(&b, "listening on  %s\n", l.Addr())
	}
	for _, key := range s.sshd.HostKeys() {
		fmt.Fprintf(&b, "host key      %s (%s)\n", ssh.FingerprintSHA256(key), key.Type())
	}
	name, readOnly := "USER", false
	if len(s.settings.Users) == 1 {
		one := s.settings.Users[0]
		name = one.Name
		readOnly = one.Policy.ReadOnly
		way := "read and write"
		if readOnly {
			way = "read only"
		}
		fmt.Fprintf(&b, "directory     %s, %s\n", ui.Printable(one.Root), way)
		fmt.Fprintf(&b, "user          %s\n", ui.Printable(name))
	} else {
		fmt.Fprintf(&b, "users         %d\n", len(s.settings.Users))
	}
	b.WriteString(s.More)
	host, port := reachable(listeners[0].Addr().(*net.TCPAddr))
	login := name + "@" + host
	fmt.Fprintf(&b, "connect with  sftp -P %d %s\n", port, ui.ShellWord(login))
	if readOnly {
		fmt.Fprintf(&b, "              usftp cp -P %d %s .\n", port, ui.ShellWord(login+":FILE"))
	} else {
		fmt.Fprintf(&b, "              usftp cp -P %d FILE %s\n", port, ui.ShellWord(login+":"))
	}
	_, err := io.WriteString(s.App.Out, b.String())
	return err
}

// reachable returns an address as clients should use it: a server that listens on all addresses is
// known by the machine's name.
func reachable(address *net.TCPAddr) (host string, port int) {
	host = address.IP.String()
	if address.IP.IsUnspecified() {
		host = "localhost"
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	} else if address.IP.To4() == nil {
		host = "[" + host + "]"
	}
	return host, address.Port
}
