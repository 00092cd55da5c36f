package interop_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// table is what ran. It is appended to the file that USFTP_TABLE names.
var table struct {
	mu   sync.Mutex
	runs []ran
}

type ran struct{ side, peer, name, result string }

// note runs one case and keeps its result.
func note(t *testing.T, side, peer, name string, run func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		defer func() {
			result := "ok"
			if t.Failed() {
				result = "FAILED"
			}
			table.mu.Lock()
			table.runs = append(table.runs, ran{side, peer, name, result})
			table.mu.Unlock()
		}()
		run(t)
	})
}

func TestMain(m *testing.M) {
	code := testenv.InMemory(m)
	if file := os.Getenv("USFTP_TABLE"); file != "" {
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err == nil {
			writeTable(f)
			err = f.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// writeTable writes a table for each side, with a line for each case and a column for each peer.
func writeTable(w io.Writer) {
	for _, side := range []string{"our client with", "our server with"} {
		var peers, names []string
		results := make(map[[2]string]string)
		for _, r := range table.runs {
			if r.side != side {
				continue
			}
			peers, names = append(peers, r.peer), append(names, r.name)
			results[[2]string{r.peer, r.name}] = r.result
		}
		if len(peers) == 0 {
			continue
		}
		slices.Sort(peers)
		slices.Sort(names)
		peers, names = slices.Compact(peers), slices.Compact(names)
		fmt.Fprintf(w, "| %s | %s |\n|%s\n", side, strings.Join(peers, " | "),
			strings.Repeat("---|", len(peers)+1))
		for _, name := range names {
			fmt.Fprintf(w, "| %s |", name)
			for _, peer := range peers {
				fmt.Fprintf(w, " %s |", results[[2]string{peer, name}])
			}
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w)
	}
}
