package rows

import (
	"os/exec"
	"slices"
	"testing"
)

func TestServeRowsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range Serve() {
		if seen[row.Name] {
			t.Errorf("two rows are named %q", row.Name)
		}
		seen[row.Name] = true
		if row.Bytes <= 0 || row.Ciphers.Title == "" {
			t.Errorf("row %s: no size or no title", row.Name)
		}
		atServer := map[string][]string{}
		for _, c := range row.Contestants {
			if slices.Contains(atServer[c.Server], c.Client) {
				t.Errorf("row %s: two contestants are named %q", row.Name, c.Name())
			}
			atServer[c.Server] = append(atServer[c.Server], c.Client)
			if out, err := exec.Command("sh", "-n", "-c",
				Together(c.Command, row.Streams)).CombinedOutput(); err != nil {
				t.Errorf("row %s: %s: %v: %s", row.Name, c.Command, err, out)
			}
		}
		for _, server := range Servers() {
			if !slices.Equal(atServer[server], atServer[OpenSSH]) {
				t.Errorf("row %s: %s has other clients than %s", row.Name, server, OpenSSH)
			}
		}
	}
	if want := 2 * 2 * len(ServeCiphers()) * len(ServeStreams()); len(seen) != want {
		t.Errorf("%d rows, not %d", len(seen), want)
	}
}

// TestTogether: all run, at a time, each with its number, and one that fails is told.
func TestTogether(t *testing.T) {
	dir := t.TempDir()
	// Each waits for a word of the next, so that they end only when they run together.
	const command = `if [ $i = 1 ]; then echo 3 >c; read x <b; else test -p c && read x <c; echo $i$x >b; fi`
	cmd := exec.Command("sh", "-c", "mkfifo b c; "+Together(command, 2))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := exec.Command("sh", "-c", Together("test $i != 2", 3)).Run(); err == nil {
		t.Error("a stream failed, and the command did not")
	}
}
