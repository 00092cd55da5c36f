//go:build unix

package dial

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestClient: one call logs in and starts SFTP, and closing the client ends the connection, also if
// that is not our own SSH.
func TestClient(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	file := writeFile(t, filepath.Join(t.TempDir(), "a"), "content")
	for name, c := range map[string]*Config{
		"own":             {},
		"the system's":    {SSH: opensshd.Find(t, "ssh")},
		"a local program": {Server: opensshd.Find(t, "sftp-server")},
	} {
		c.ConfigFile = srv.ConfigFile
		client, err := c.Client(testContext(t), srv.Alias)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if data, err := client.ReadFile(file); err != nil || string(data) != "content" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
	none(t)
}

// TestClientFails: errors name the host, and nothing is left behind.
func TestClientFails(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	config := &Config{ConfigFile: srv.ConfigFile}
	_, err := config.Client(testContext(t), srv.Alias+":dir")
	if err == nil || !strings.Contains(err.Error(), "has a path") {
		t.Errorf("a path: %v", err)
	}
	if _, err := config.Client(testContext(t), ""); err == nil ||
		err.Error() != `"": no host given` {
		t.Errorf("no host: %v", err)
	}
	config.SFTPServer = "echo hello >&2; exit 1"
	var named *Error
	if _, err := config.Client(testContext(t), srv.Alias); !errors.As(err, &named) ||
		err.Error() != srv.Alias+": SFTP did not start: hello" {
		t.Errorf("no SFTP: %v", err)
	}
	config.SFTPServer = ""
	if err := os.WriteFile(srv.AuthorizedKeys, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var refused *AuthError
	if _, err := config.Client(testContext(t), srv.Alias); !errors.As(err, &refused) ||
		!errors.As(err, &named) {
		t.Errorf("no login: %v", err)
	}
	none(t)
}
