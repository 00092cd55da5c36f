package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/sshd"
)

// Storage is a versitygw, whose objects are files in a directory.
type Storage struct {
	// Endpoint is its URL, and Bucket its bucket.
	Endpoint, Bucket string
	// Dir has the objects below the prefix that is served, each a file.
	Dir string

	keys   string // a file of the keys
	server Server
}

// Parameters of the requests to the storage.
const (
	StorageRegion = "us-east-1"
	StorageAccess = "key"
	StorageSecret = "secret"
	StoragePrefix = "served/"
)

// StartStorage runs a storage in the directory of the rig.
func (r *Rig) StartStorage() (*Storage, error) {
	program, err := exec.LookPath("versitygw")
	if err != nil {
		return nil, absent("no versitygw on the PATH")
	}
	port, err := sshd.FreePort(loopback)
	if err != nil {
		return nil, err
	}
	address, top := net.JoinHostPort(loopback, port), filepath.Join(r.config.Dir, "storage")
	s := &Storage{Endpoint: "http://" + address, Bucket: "bucket",
		Dir:  filepath.Join(top, "bucket", StoragePrefix),
		keys: filepath.Join(r.dir, "s3.keys"), server: Server{Name: "storage"}}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.keys, []byte("[default]\naws_access_key_id = "+StorageAccess+
		"\naws_secret_access_key = "+StorageSecret+"\n"), 0o600); err != nil {
		return nil, err
	}
	if err := r.run(&s.server, accepts(address), program, "--quiet", "--access", StorageAccess,
		"--secret", StorageSecret, "--port", address, "posix", top); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends the storage; its files stay.
func (s *Storage) Close() error { return s.server.Close() }

// StartOn runs a server of files in a storage: [rows.SFTPGo] or [rows.Usftp].
func (r *Rig) StartOn(name string, storage *Storage) (s *Server, err error) {
	return r.start(name, func(s *Server, address string) error {
		if name == rows.SFTPGo {
			return r.startSFTPGo(s, address, "--fs-provider", "s3fs", "--s3-bucket", storage.Bucket,
				"--s3-key-prefix", StoragePrefix, "--s3-endpoint", storage.Endpoint, "--s3-region",
				StorageRegion, "--s3-access-key", StorageAccess, "--s3-access-secret",
				StorageSecret, "--s3-force-path-style")
		}
		file := filepath.Join(r.dir, "objects.toml")
		text := fmt.Sprintf(objectConfig, address, r.openssh.HostKey, storage.Endpoint,
			StorageRegion, storage.keys, r.openssh.User, storage.Bucket, StoragePrefix,
			r.openssh.AuthorizedKeys)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		return r.run(s, banner(address), r.config.Usftpd, "--config", file)
	})
}

const objectConfig = `listen = [%q]
host_keys = [%q]

[storage]
endpoint = %q
region = %q
path_style = true
keys = %q

[[users]]
name = %q
root = "s3://%s/%s"
authorized_keys = %q
`

// StartNodes runs nodes of usftpd with these users, of whom all have the rig's key. They share a
// store in PostgreSQL, whose URL is given; without a URL they have none.
func (r *Rig) StartNodes(name, store string, nodes int, users []string) (all []*Server, err error) {
	var text strings.Builder
	fmt.Fprintf(&text, "host_keys = [%q]\n", r.openssh.HostKey)
	program, arguments := r.config.Usftpd, []string{}
	if store == "" { // there is nowhere to put one
		program, arguments = "env", []string{"STATE_DIRECTORY=" + os.DevNull + "/none",
			r.config.Usftpd}
	} else {
		fmt.Fprintf(&text, "[store]\nurl = %q\n", store)
	}
	for _, user := range users {
		fmt.Fprintf(&text, "[[users]]\nname = %q\nroot = %q\nauthorized_keys = %q\n",
			user, r.config.Dir, r.openssh.AuthorizedKeys)
	}
	for i := range nodes {
		s, err := r.start(rows.Usftp, func(s *Server, address string) error {
			file := filepath.Join(r.dir, fmt.Sprintf("%s-%d.toml", strings.ReplaceAll(name, " ", "-"),
				i))
			if err := os.WriteFile(file, fmt.Appendf(nil, "listen = [%q]\n%s", address, &text),
				0o600); err != nil {
				return err
			}
			return r.run(s, banner(address), program, append(arguments, "--config", file)...)
		})
		if err != nil {
			for _, started := range all {
				err = errors.Join(err, started.Close())
			}
			return nil, err
		}
		s.Name = name
		all = append(all, s)
	}
	return all, nil
}

// StartPostgres runs a PostgreSQL that listens in a directory of its own, and returns its URL. As
// root it becomes the user postgres.
func (r *Rig) StartPostgres() (s *Server, url string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return nil, "", absent("no PostgreSQL of Debian's")
	}
	server := found[len(found)-1]
	dir, err := os.MkdirTemp("/tmp", "pg") // short, as the path of a socket must be
	if err != nil {
		return nil, "", err
	}
	s = &Server{Name: "postgres", remove: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	as := []string{}
	if os.Getuid() == 0 {
		if err := exec.Command("chown", "postgres", dir).Run(); err != nil {
			return nil, "", err
		}
		as = []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}
	}
	data := filepath.Join(dir, "data")
	command := append(as, filepath.Join(filepath.Dir(server), "initdb"), "-D", data, "-A", "trust",
		"-U", "usftpd", "--no-sync")
	init := exec.Command(command[0], command[1:]...)
	init.Dir = dir
	if out, err := init.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	command = append(as, server, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "max_connections=200")
	ready := func() error {
		conn, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.5432"))
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := r.run(s, ready, command[0], command[1:]...); err != nil {
		return nil, "", err
	}
	return s, "postgres://usftpd@/postgres?host=" + dir, nil
}
