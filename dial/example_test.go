package dial_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/usftp/usftp/dial"
)

func ExampleParseTarget() {
	for _, arg := range []string{"me@example.com:notes.txt", "sftp://example.com:2222/srv/a%20b",
		"./odd:name"} {
		t, remote, err := dial.ParseTarget(arg)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v %q %q %d %q\n", remote, t.User, t.Host, t.Port, t.Path)
	}
	// Output:
	// true "me" "example.com" 0 "notes.txt"
	// true "" "example.com" 2222 "/srv/a b"
	// false "" "" 0 ""
}

// A client in one call; closing it ends the connection.
func ExampleClient() {
	client, err := dial.Client(context.Background(), "me@example.com")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	data, err := client.ReadFile("notes.txt")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", data)
}

func ExampleConfig_Client() {
	config := &dial.Config{Identities: []string{"deploy_key"},
		Options: []string{"ConnectTimeout=10", "StrictHostKeyChecking=yes"}}
	client, err := config.Client(context.Background(), "me@example.com")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleNew() {
	ctx := context.Background()
	target, err := dial.ParseHost("me@example.com")
	if err != nil {
		log.Fatal(err)
	}
	d, err := dial.New(ctx, target, &dial.Config{Options: []string{"ConnectTimeout=10"}})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := d.Dial(ctx)
	var key *dial.HostKeyError
	if errors.As(err, &key) && key.Problem == dial.HostKeyUnknown {
		log.Fatalf("%v; connect once with ssh and compare %s", err, key.Fingerprint)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	stream, err := conn.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	// stream is an io.ReadWriteCloser that speaks SFTP.
}

// A Prompter asks a person; whoever asks nobody leaves it out.
func ExamplePrompterFunc() {
	ask := func(_ context.Context, p dial.Prompt) (string, error) {
		if p.Kind == dial.AskPassword {
			return os.Getenv("PASSWORD"), nil
		}
		return "", errors.New("nobody is here to answer")
	}
	target, err := dial.ParseHost("me@example.com")
	if err != nil {
		log.Fatal(err)
	}
	d, err := dial.New(context.Background(), target, &dial.Config{Prompter: dial.PrompterFunc(ask)})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := d.Dial(context.Background())
	var refused *dial.AuthError
	if errors.As(err, &refused) {
		log.Fatalf("tried %v; the server accepts %v", refused.Tried, refused.Allowed)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
}
