package s3test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/usftp/usftp/internal/testenv"
)

// Radosgw runs Ceph's gateway in one region, us-east-1, with the least of Ceph behind it and
// everything in memory, until the test ends, and returns its URL. It takes about 20 seconds to
// start.
func Radosgw(t *testing.T) (endpoint string) {
	t.Helper()
	for _, name := range []string{"ceph", "ceph-authtool", "monmaptool", "ceph-mon", "ceph-osd",
		"radosgw", "radosgw-admin"} {
		testenv.Program(t, name)
	}
	dir, err := os.MkdirTemp("", "rgw") // short, as the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &ceph{t, dir, filepath.Join(dir, "ceph.conf")}
	monitor := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	gateway := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	c.configure(monitor, gateway)

	c.run("monmaptool", "--create", "--fsid", cephID, "--addv", "a", "v2:"+monitor, "monmap")
	c.key("admin", "allow *")
	c.run("ceph-authtool", "--create-keyring", "mon.keyring", "--gen-key", "-n", "mon.", "--cap",
		"mon", "allow *")
	c.run("ceph-authtool", "mon.keyring", "--import-keyring", "client.admin.keyring")
	c.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap", "--keyring", "mon.keyring")
	c.serve("tcp", monitor, "ceph-mon", "-f", "-i", "a")

	c.run("ceph", "osd", "create")
	c.run("ceph-authtool", "--create-keyring", "osd/keyring", "--gen-key", "-n", "osd.0", "--cap",
		"mon", "allow profile osd", "--cap", "osd", "allow *")
	c.run("ceph", "auth", "add", "osd.0", "-i", "osd/keyring")
	c.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", cephID)
	c.serve("unix", filepath.Join(dir, "osd.0.asok"), "ceph-osd", "-f", "-i", "0")

	c.key("rgw", "allow rwx")
	c.run("ceph", "auth", "add", "client.rgw", "-i", "client.rgw.keyring")
	c.serve("tcp", gateway, "radosgw", "-f", "-n", "client.rgw")
	c.run("radosgw-admin", "user", "create", "--uid=test", "--display-name=test",
		"--access-key="+AccessKey, "--secret-key="+SecretKey)
	return "http://" + gateway
}

// MakeBucket makes a bucket in a storage.
func MakeBucket(t *testing.T, endpoint, name string) {
	t.Helper()
	err := client(t, endpoint).MakeBucket(t.Context(), name, minio.MakeBucketOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// KeepVersions lets a bucket keep versions.
func KeepVersions(t *testing.T, endpoint, name string) {
	t.Helper()
	if err := client(t, endpoint).EnableVersioning(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func client(t *testing.T, endpoint string) *minio.Client {
	t.Helper()
	made, err := minio.New(strings.TrimPrefix(endpoint, "http://"), &minio.Options{
		Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

const cephID = "f11ef11e-0000-4000-8000-000000000000"

// ceph is a Ceph in a directory.
type ceph struct {
	*testing.T
	dir, config string
}

// configure writes the configuration of one monitor, one store and one gateway.
func (c *ceph) configure(monitor, gateway string) {
	c.Helper()
	text := fmt.Sprintf(`[global]
fsid = %[2]s
mon host = v2:%[3]s
mon initial members = a
auth allow insecure global id reclaim = true
public addr = 127.0.0.1
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
mon allow pool size one = true
mon max pg per osd = 1000
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 8589934592
run dir = %[1]s
admin socket = %[1]s/$name.asok
pid file = %[1]s/$name.pid
log file = %[1]s/$name.log
crash dir = %[1]s/crash
mon data = %[1]s/mon
osd data = %[1]s/osd
keyring = %[1]s/$name.keyring
[osd.0]
keyring = %[1]s/osd/keyring
[client.rgw]
rgw frontends = beast endpoint=%[4]s
rgw enable apis = s3
rgw run sync thread = false
rgw enable usage log = false
`, c.dir, cephID, monitor, gateway)
	if err := os.WriteFile(c.config, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	for _, name := range []string{"mon", "osd", "crash"} {
		if err := os.Mkdir(filepath.Join(c.dir, name), 0o700); err != nil {
			c.Fatal(err)
		}
	}
}

// key makes the key of a client.
func (c *ceph) key(client, mon string) {
	c.Helper()
	c.run("ceph-authtool", "--create-keyring", "client."+client+".keyring", "--gen-key", "-n",
		"client."+client, "--cap", "mon", mon, "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
}

func (c *ceph) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.Context(), name, args...)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "CEPH_CONF="+c.config)
	return cmd
}

func (c *ceph) run(name string, args ...string) {
	c.Helper()
	if out, err := c.command(name, args...).CombinedOutput(); err != nil {
		c.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
}

func (c *ceph) serve(network, address, name string, args ...string) {
	c.Helper()
	for tries := 1; ; tries++ { // on a busy machine they give up by themselves at times
		cmd := exec.Command(name, args...) // not ended with the test's context, but by TryServe
		cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "CEPH_CONF="+c.config)
		err := testenv.TryServe(c.T, cmd, network, address)
		if err == nil {
			return
		}
		if tries == 3 {
			c.Fatal(err)
		}
		c.Log(err)
	}
}
