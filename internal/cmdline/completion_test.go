package cmdline

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestFishCompletion: a script that would evaluate words without their quotes is not printed.
func TestFishCompletion(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "program"}
	var theirs, ours bytes.Buffer
	fish := shells["fish"]
	if err := fish.print(root, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := fish.write(root, &ours); err != nil {
		t.Fatal(err)
	}
	const evaluated = "set -l args (commandline -opc)\n"
	if strings.Contains(ours.String(), evaluated) || ours.Len() <= theirs.Len() {
		t.Errorf("the words are not quoted:\n%s", &ours)
	}
	for _, changed := range []string{"", ours.String(),
		strings.Replace(theirs.String(), evaluated, "set -l args (commandline -xpc)\n", 1),
		theirs.String() + evaluated, theirs.String() + "eval (commandline -b)\n"} {
		if script, err := fish.correct(changed, "program"); err == nil {
			t.Errorf("another script is printed:\n%s", script)
		}
	}
}
