//go:build unix

package dial

import (
	"io"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestCloseWrite: a program on the host that reads to the end gets there, and says the rest.
func TestCloseWrite(t *testing.T) {
	srv := opensshd.Start(t, opensshd.Options{})
	for name, test := range map[string]struct {
		config Config
		stack  string
	}{
		"own":          {},
		"x/crypto/ssh": {stack: "xcrypto"},
		"the system's": {config: Config{SSH: opensshd.Find(t, "ssh")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("USFTP_SSH_STACK", test.stack)
			c := test.config
			c.ConfigFile = srv.ConfigFile
			conn := connect(t, Target{Host: srv.Alias}, &c)
			stream, err := conn.OpenCommand(testContext(t), "cat; echo rest")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Write([]byte("sent ")); err != nil {
				t.Fatal(err)
			}
			if err := stream.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(stream)
			if err != nil || string(got) != "sent rest\n" {
				t.Errorf("it says %q, %v", got, err)
			}
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
