//go:build unix

package daemon

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

// TestContainersOfThreeNodes runs what compose.yaml describes, with its configuration files, as
// processes of this machine: three nodes behind HAProxy, with object storage and PostgreSQL. The
// node that a client uploads to is killed, and the client goes on through HAProxy.
func TestContainersOfThreeNodes(t *testing.T) {
	const container = "../../container/"
	endpoint := s3test.Storage(t, "uploads")
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3test.SecretKey)
	home, key := servetest.HomeWithKey(t)
	keys := filepath.Join(home, ".config", "usftp") // where servetest looks for it
	if err := os.MkdirAll(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	text := string(readFile(t, container+"nodes.toml"))
	for _, one := range [][2]string{
		{":2022", "127.0.0.1:0"},
		{"/keys/host_ed25519_key", filepath.Join(keys, "host_ed25519_key")},
		{"/keys/host_ecdsa_key", filepath.Join(keys, "host_ecdsa_key")},
		{"/keys/host_rsa_key", filepath.Join(keys, "host_rsa_key")},
		{"10.89.22.0/24", "127.0.0.1"},
		{"postgres://usftpd@database/usftpd", storetest.Postgres(t)},
		{"http://objects:7070", endpoint},
		{"/etc/usftp/authorized_keys", filepath.Join(home, "id.pub")},
	} {
		if !strings.Contains(text, `"`+one[0]+`"`) {
			t.Fatalf("nodes.toml has no %q", one[0])
		}
		text = strings.ReplaceAll(text, `"`+one[0]+`"`, `"`+one[1]+`"`)
	}
	file := filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte(text))
	nodes := map[string]*servetest.Server{}
	for _, name := range []string{"one", "two", "three"} {
		nodes[name+":2022"] = servetest.Start(t, home, "usftpd", "--config", file)
	}
	balanced := *nodes["one:2022"]
	balanced.Port = startHAProxy(t, container+"haproxy.cfg", ":2022", nodes)
	data := randomData(40_000_000)
	writeFile(t, filepath.Join(home, "half"), data)
	bucket, err := s3bucket.New("uploads", s3bucket.Config{Endpoint: endpoint, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	client, _ := upload(t, &balanced, "files", key, bucket, "files/half")
	lost := loggedInOn(t, slices.Collect(maps.Values(nodes))...)
	lost.Cmd.Process.Kill()
	<-lost.Ended
	if err := client.Wait(); err == nil {
		t.Fatal("the client was done before its node was killed")
	}
	// The others wait until they know that it is gone.
	testenv.Until(t, "the client goes on", func() bool {
		_, err := balanced.SFTP("files", key, "reput half\n")
		return err == nil
	})
	if out, err := balanced.SFTP("files", key, "get half back\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	servetest.Same(t, data, filepath.Join(home, "back"))
}
