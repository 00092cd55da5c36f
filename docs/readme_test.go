package docs_test

import (
	"context"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/testenv"
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

// TestReadmeModule: with README.md's commands, a module beside a clone uses the library.
func TestReadmeModule(t *testing.T) {
	_, commands, _ := strings.Cut(readDoc(t, "README.md"),
		"In your own module, beside the clone:\n\n")
	commands, _, _ = strings.Cut(commands, "\n\n")
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "../usftp")); err != nil {
		testenv.Unavailable(t, err)
	}
	program := "package main\n\nimport _ \"github.com/usftp/usftp/transfer\"\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines("go mod init example.com/program\n" + commands +
		"\ngo list -deps .\n") {
		command, _, _ := strings.Cut(line, "#")
		words := strings.Fields(command)
		cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if ran++; strings.Contains(string(out), "module lookup disabled by GOPROXY=off") ||
			strings.Contains(string(out), "dial tcp") {
			testenv.Unavailable(t, string(out))
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if ran != 4 {
		t.Errorf("%d commands have run", ran)
	}
}
