package servers

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/bench/sshd"
)

// startSFTPGo runs it in its portable mode, which needs no database, without a log, and with as
// many connections from one address as there may be: usftp's client makes several, and all clients
// have one address here. More says what it serves instead of the directory.
func (r *Rig) startSFTPGo(s *Server, address string, more ...string) error {
	keys, err := os.ReadFile(r.openssh.AuthorizedKeys)
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	type object = map[string]any
	text, err := json.Marshal(object{
		"common": object{"max_per_host_connections": 0, "proxy_protocol": 0},
		"sftpd": object{"bindings": []object{{"address": host}},
			"host_keys": []string{r.openssh.HostKey}},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "sftpgo.json"), text, 0o600); err != nil {
		return err
	}
	return r.run(s, banner(address), "sftpgo", append([]string{"portable", "-c", r.dir, "-d",
		r.config.Dir, "-u", r.openssh.User, "-k", strings.TrimSpace(string(keys)), "-g", "*", "-s",
		port, "--ssh-commands", "scp"}, more...)...)
}

// startUsftp runs ours, with all its defaults.
func (r *Rig) startUsftp(s *Server, address string) error {
	metrics, err := sshd.FreePort(loopback)
	if err != nil {
		return err
	}
	s.Metrics = net.JoinHostPort(loopback, metrics)
	return r.runUsftpd(s, banner(address), fmt.Sprintf("listen = [%q]\nmetrics = %q\n", address,
		s.Metrics))
}

// runUsftpd runs an instance with the user and these settings.
func (r *Rig) runUsftpd(s *Server, ready func() error, settings string) error {
	file := filepath.Join(r.dir, fmt.Sprintf("%s-%d.toml", s.Name, len(s.processes)))
	text := settings + fmt.Sprintf(instanceConfig, r.openssh.HostKey, r.openssh.User, r.config.Dir,
		r.openssh.AuthorizedKeys)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return r.run(s, ready, r.config.Usftpd, "--config", file)
}

// startBalanced runs HAProxy, as docs/haproxy.cfg has it, before two instances.
func (r *Rig) startBalanced(s *Server, address string) error {
	var instances [2]string
	for i := range instances {
		port, err := sshd.FreePort(loopback)
		if err != nil {
			return err
		}
		instances[i] = net.JoinHostPort(loopback, port)
		if err := r.runUsftpd(s, accepts(instances[i]), fmt.Sprintf(
			"listen = [%q]\nproxy_protocol = [%q]\n", instances[i], loopback)); err != nil {
			return err
		}
	}
	config := filepath.Join(r.dir, "haproxy.cfg")
	if err := os.WriteFile(config, fmt.Appendf(nil, haproxyConfig, address, instances[0],
		instances[1]), 0o600); err != nil {
		return err
	}
	return r.run(s, banner(address), "haproxy", "-db", "-f", config)
}

const instanceConfig = `host_keys = [%q]

[[users]]
name = %q
root = %q
authorized_keys = %q
`

const haproxyConfig = `defaults
    mode tcp
    timeout connect 5s
    timeout client 2h
    timeout server 2h
    retries 3
    option redispatch 1

frontend sftp
    bind %s
    default_backend usftp

backend usftp
    balance leastconn
    option tcp-check
    tcp-check expect string SSH-2.0-
    default-server send-proxy-v2 check check-send-proxy inter 2s fall 2 rise 1 on-marked-down shutdown-sessions
    server one %s
    server two %s
`
