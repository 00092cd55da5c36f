package totp

import (
	"encoding/base32"
	"net/url"
	"testing"
	"time"
)

// TestMatch: the codes of RFC 6238, appendix B, shortened to six digits, from one step before to
// one after.
func TestMatch(t *testing.T) {
	t.Parallel()
	secret := base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))
	for _, one := range []struct {
		at   int64
		code string
	}{{59, "287082"}, {1111111109, "081804"}, {1234567890, "005924"}, {20000000000, "353130"}} {
		for off := int64(-30); off <= 60; off += 30 {
			number, ok := Match(secret, one.code, time.Unix(one.at+off, 0))
			if want := off >= -30 && off <= 30; ok != want || ok && number != one.at/30 {
				t.Errorf("%s %d s off: %d, %v", one.code, off, number, ok)
			}
		}
	}
	if _, ok := Match(secret, " 287 082\n", time.Unix(59, 0)); !ok {
		t.Error("spaces in a code matter")
	}
	for _, code := range []string{"", "28708", "0287082", "287082\x00", "-87082"} {
		if _, ok := Match(secret, code, time.Unix(59, 0)); ok {
			t.Errorf("%q is accepted", code)
		}
	}
}

// TestNew: the URI has what authenticators read, whatever the names have in them.
func TestNew(t *testing.T) {
	t.Parallel()
	secret, uri, err := New("Files & more", "ann@x/y z")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" ||
		u.Path != "/Files & more:ann@x/y z" || u.Query().Get("secret") != secret ||
		u.Query().Get("issuer") != "Files & more" || len(secret) != 32 {
		t.Errorf("%s, %v", uri, err)
	}
}

// TestRecovery: each code is another, and how somebody types it does not matter.
func TestRecovery(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, code := range Recovery() {
		seen[Hash("ann", code)] = true
	}
	if len(seen) != recoveryCodes {
		t.Errorf("%d codes", len(seen))
	}
	if Hash("ann", "abcd-EFGH 2345-6789") != Hash("ann", "ABCDEFGH23456789") ||
		Hash("ann", "A") == Hash("bob", "A") {
		t.Error("hashes are of what is typed, not of the code and the user")
	}
}
