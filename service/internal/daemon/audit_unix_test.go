//go:build unix

package daemon

import (
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/service/internal/store/storetest"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestAudit: the trail says who has logged in, from where and with which key, which files were
// moved, what was changed and refused, on both nodes; it is searched by user, time and path. Names
// that clients choose do nothing to terminals and spreadsheets.
func TestAudit(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"SQLite":   func(*testing.T) string { return "" },
		"Postgres": storetest.Postgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			more := "[audit]\nkeep = '30d'\n[store]\nfile = 'store.db'"
			if url := url(t); url != "" {
				more = "[audit]\n[store]\nurl = '" + url + "'"
			}
			testAudit(t, more)
		})
	}
}

func testAudit(t *testing.T, more string) {
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, more)
	writeFile(t, filepath.Join(home, "f"), randomData(5000))
	one := servetest.Start(t, home, "usftpd", "--config", file)
	two := servetest.Start(t, home, "usftpd", "--config", file)
	if out, err := one.SFTP("alice", key, "put f in.xml\nput f \"=cmd()\x1b[2J.csv\"\n"+
		"rename in.xml new.xml\nget new.xml got\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	two.SFTP("bob", key, "-put f denied\n")
	two.SFTP("bob", opensshd.Keygen(t, filepath.Join(home, "stranger")), "pwd\n")
	for _, s := range []*servetest.Server{one, two} { // what they have in memory is written
		s.End(15, 0)
	}
	audit := func(args ...string) string {
		t.Helper()
		return do(t, home, file, "", "audit", args...)
	}
	records := func(args ...string) (all []store.Record) {
		t.Helper()
		for line := range strings.Lines(audit(append(args, "--json")...)) {
			var r store.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatalf("%v: %q", err, line)
			}
			all = append(all, r)
		}
		return all
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(readFile(t, key+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	in := records("--only", "logins", "--user", "alice")
	if len(in) != 2 || in[0].Kind != "logged in" || in[0].Key != ssh.FingerprintSHA256(public) ||
		in[0].Method != "publickey" || !strings.HasPrefix(in[0].Remote, "127.0.0.1:") {
		t.Errorf("logins of alice: %+v", in)
	}
	files := records("--path", "*.xml", "--since", "1h")
	if len(files) != 3 || !files[0].Upload || files[0].Written != 5000 ||
		files[0].Path != "/in.xml" || files[1].To != "/new.xml" || files[2].Read != 5000 ||
		files[2].Upload {
		t.Errorf("XML files: %+v", files)
	}
	if failed := records("--only", "failures"); len(failed) != 2 ||
		failed[0].Kind != "request denied" || failed[0].User != "bob" ||
		failed[1].Kind != "login failed" || failed[0].Node == files[0].Node {
		t.Errorf("failures: %+v", failed)
	}
	if later := records("--until", "1h"); len(later) != 0 {
		t.Errorf("an hour ago there was %+v", later)
	}
	rows, err := csv.NewReader(strings.NewReader(audit("--csv", "--user", "alice"))).ReadAll()
	if err != nil || len(rows) != 7 || rows[0][10] != "path" ||
		rows[3][10] != `/=cmd()\x1b[2J.csv` {
		t.Errorf("CSV: %v, %q", err, rows)
	}
	table := audit("--user", "alice")
	if !strings.Contains(table, `  upload /=cmd()\x1b[2J.csv 5.00 kB`) ||
		!strings.Contains(table, "  rename /in.xml to /new.xml") &&
			!strings.Contains(table, "  posix-rename /in.xml to /new.xml") {
		t.Errorf("the table:\n%s", table)
	}
	do(t, home, file, "", "ban add", "--for", "1h", "192.0.2.7")
	if admin := records("--only", "admin"); len(admin) != 1 || admin[0].Remote == "" ||
		admin[0].Details != "ban add 192.0.2.7 --for=1h0m0s" {
		t.Errorf("what was done to the store: %+v", admin)
	}
	for args, want := range map[string]string{
		"--path [a":         "--path: matches nothing",
		"--since yesterday": "--since: \"yesterday\" is not a time",
		"--only none":       "there is no set",
		"--csv --json":      "either --csv or --json",
	} {
		all := append([]string{"audit", "--config", file}, strings.Fields(args)...)
		if o := run(t, home, "", all...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d, %q", args, o.code, o.stderr)
		}
	}
}
