//go:build unix

package store

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// TestErrorInOneLine: what PostgreSQL's library says about each address is in one line, as in a log
// and on a terminal, where a line break would be escaped.
func TestErrorInOneLine(t *testing.T) {
	t.Parallel()
	name := fmt.Sprintf("postgres://u@127.0.0.1:%d/d", testenv.RefusedPort(t))
	s, err := Open(t.Context(), name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Err(); err == nil || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "connection refused; ") {
		t.Errorf("%q", err)
	}
}
