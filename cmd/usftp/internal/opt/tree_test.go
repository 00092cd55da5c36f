package opt

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
)

// A pattern that can match nothing is refused wherever it is: what it was meant to keep would be
// deleted.
func TestPatternsThatMatchNothing(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules")
	for _, rule := range []string{"./keep", "a/../b", "+ ./keep", "- ../keep", "/"} {
		if err := os.WriteFile(rules, []byte("*.o\n"+rule+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, arg := range []string{"--exclude=" + rule, "--exclude-from=" + rules} {
			var flags pflag.FlagSet
			new(Tree).RegisterFilter(&flags, "leave out")
			if err := flags.Parse([]string{arg}); err == nil {
				t.Errorf("%s with %q was taken", arg, rule)
			}
		}
	}
}
