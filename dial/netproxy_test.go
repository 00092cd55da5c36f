package dial

import "testing"

// TestExempt: NO_PROXY is read as curl reads it.
func TestExempt(t *testing.T) {
	for _, test := range []struct {
		list   string
		exempt []string
		not    []string
	}{
		{"", nil, []string{"a", "127.0.0.1"}},
		{"*", []string{"a", "192.0.2.1", "::1"}, nil},
		{"other, *", []string{"a"}, nil},
		{"example.com", []string{"example.com", "a.example.com", "A.Example.COM"},
			[]string{"notexample.com", "com", "192.0.2.1"}},
		{".example.com", []string{"a.example.com", "example.com"}, []string{"notexample.com"}},
		{"*.Example.com", []string{"a.b.example.com"}, []string{"notexample.com"}},
		{"a b,c", []string{"a", "b", "c"}, []string{"d"}},
		{"192.0.2.1,198.51.100.0/24,2001:db8::1", []string{"192.0.2.1", "198.51.100.7", "2001:db8::1"},
			[]string{"192.0.2.11", "198.51.101.7", "2001:db8::2", "a"}},
	} {
		for _, host := range test.exempt {
			if !exempt(host, test.list) {
				t.Errorf("%q does not exempt %s", test.list, host)
			}
		}
		for _, host := range test.not {
			if exempt(host, test.list) {
				t.Errorf("%q exempts %s", test.list, host)
			}
		}
	}
}
