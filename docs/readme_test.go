package docs_test

import (
	"context"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

// upload is the example of README.md.
func upload(ctx context.Context) error {
	target, err := dial.ParseHost("me@example.com")
	if err != nil {
		return err
	}
	// Connect logs in as ssh does, with your ssh_config.
	login, err := pool.Connect(ctx, target, pool.ConnectConfig{})
	if err != nil {
		return err
	}
	defer login.Close()
	_, err = transfer.CopyTree(ctx, transfer.Remote(login.Host(), "backup"),
		transfer.Local("photos"),
		transfer.TreeOptions{Options: transfer.Options{Events: func(e transfer.Event) {
			if e.Totals != nil {
				log.Println(e.Kind, e.Totals.Files, "of", e.Totals.PlannedFiles, "files")
			}
		}}})
	return err
}

func Example_readme() {
	if err := upload(context.Background()); err != nil {
		os.Exit(1)
	}
}

// TestReadmeExample: the example in README.md is the code that is compiled here.
func TestReadmeExample(t *testing.T) {
	source, err := os.ReadFile("docs/readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "upload(ctx context.Context) error {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
	if !strings.Contains(string(readme), "```go"+body+"\n```") {
		t.Errorf("README.md's example is not this:\n%s", body)
	}
}
