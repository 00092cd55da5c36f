package usftp_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
)

// download is the example of README.md.
func download(config *ssh.ClientConfig, w io.Writer) error {
	conn, err := ssh.Dial("tcp", "host:22", config) // golang.org/x/crypto/ssh
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := usftp.NewClient(conn)
	if err != nil {
		return err
	}
	defer client.Close()

	f, err := client.Open("data.tar")
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteTo(w) // as many requests in flight as the link holds
	return err
}

func Example_readme() {
	config := &ssh.ClientConfig{User: "user" /* Auth and HostKeyCallback too */}
	if err := download(config, os.Stdout); err != nil {
		os.Exit(1)
	}
}

// What README.md shows is what is compiled here.
func TestReadmeExample(t *testing.T) {
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "w io.Writer) error {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
	if !strings.Contains(string(readme), "```go"+body+"\n```") {
		t.Errorf("README.md's example is not this:\n%s", body)
	}
}
