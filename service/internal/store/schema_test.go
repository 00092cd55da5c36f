package store

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestSchemaIsHistory: what a version of the tables adds never changes afterwards, since a store that
// has this version does not get it again: it would lack a table for good. A change is a new version,
// with a new line here.
func TestSchemaIsHistory(t *testing.T) {
	t.Parallel()
	history := []string{"0bc9cfff", "97b55636", "9aa0b3da", "61359b17", "a584c487", "100a8fda",
		"301c2fac", "05a606fe", "980ddbfe", "f8b79270", "ec184f50"}
	comments := regexp.MustCompile(`--[^\n]*`)
	for i, version := range schema {
		text := comments.ReplaceAllString(strings.Join(version, ";"), "")
		sum := fmt.Sprintf("%.4x", sha256.Sum256([]byte(strings.Join(strings.Fields(text), " "))))
		if i >= len(history) || history[i] != sum {
			t.Errorf("version %d is %q now", i+1, sum)
		}
	}
	if len(history) > len(schema) {
		t.Errorf("there are %d versions, fewer than before", len(schema))
	}
}
