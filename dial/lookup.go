package dial

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
)

// systemAddresses asks Linux's C library, by getent, for the addresses of a name that Go did not
// find. A program built without cgo knows files and DNS, and nothing else that nsswitch.conf names,
// such as multicast DNS for board.local, or a directory service. ssh asks the C library.
func (d *Dialer) systemAddresses(ctx context.Context, host string) (found []netip.Addr) {
	program := d.config.find("getent")
	if runtime.GOOS != "linux" || program == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(d.s.connectTimeout, resolveTimeout))
	defer cancel()
	database := map[string]string{"tcp": "ahosts", "tcp4": "ahostsv4",
		"tcp6": "ahostsv6"}[d.s.network]
	out, _, err := printed(ctx, d.config.environ(), program, database, host)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(out.Bytes())) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "STREAM" {
			continue
		}
		if a, err := netip.ParseAddr(fields[0]); err == nil {
			found = append(found, a)
		}
	}
	return found
}

// dialName connects to an address whose host may be a name.
func (d *Dialer) dialName(ctx context.Context, nd *net.Dialer, address string) (net.Conn, error) {
	conn, err := nd.DialContext(ctx, d.s.network, address)
	dns, unknown := errors.AsType[*net.DNSError](err)
	host, port, split := net.SplitHostPort(address)
	if !unknown || dns.Name != host || split != nil || ctx.Err() != nil {
		return conn, err
	}
	for _, a := range d.systemAddresses(ctx, host) {
		conn, err = nd.DialContext(ctx, d.s.network, net.JoinHostPort(a.String(), port))
		if err == nil {
			break
		}
	}
	return conn, err
}
