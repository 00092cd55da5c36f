//go:build unix

package daemon

import (
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/store"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestHashes: the trail has the hashes of what clients send and fetch, whatever they have in flight
// and however large their requests are, in directories and in object storage; and none of what was
// resumed.
func TestHashes(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T) (home, key, file string){
		"directories": func(t *testing.T) (home, key, file string) {
			home, key = servetest.HomeWithKey(t)
			file, _, _ = writeConfig(t, home, key, "uploads = 'in-place'")
			return home, key, file
		},
		"atomic": func(t *testing.T) (home, key, file string) {
			home, key = servetest.HomeWithKey(t)
			file, _, _ = writeConfig(t, home, key, "")
			return home, key, file
		},
		"objects": func(t *testing.T) (home, key, file string) {
			home, key, file, _ = withObjects(t)
			return home, key, file
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, key, file := prepare(t)
			writeFile(t, file, []byte(strings.NewReplacer(`quota_bytes = "1MB"`, "", `"alice"
root`, `"u"
root`).Replace(string(readFile(t, file)))+
				"[audit]\nhashes = true\n[store]\nfile = 'store.db'\n"))
			testHashes(t, home, key, file, hear(t, file))
		})
	}
}

// hear adds a hook to a configuration file. It returns a function that returns the hashes that the
// hook was told, by kinds and paths.
func hear(t *testing.T, file string) (heard func() map[string]string) {
	var mu sync.Mutex
	all := map[string]string{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct{ Kind, Path, SHA256 string }
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all[e.Kind+" "+e.Path] = e.SHA256
	}))
	t.Cleanup(receiver.Close)
	writeFile(t, file, fmt.Appendf(readFile(t, file), `[[hooks]]
name = "hear"
on = ["uploaded", "downloaded"]
url = %q
`, receiver.URL))
	return func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(all)
	}
}

func testHashes(t *testing.T, home, key, file string, heard func() map[string]string) {
	client, err := buildClient()
	if err != nil {
		t.Fatal(err)
	}
	python := testenv.Python(t, "paramiko")
	script, err := filepath.Abs("../../../server/clients/testdata/paramiko_client.py")
	if err != nil {
		t.Fatal(err)
	}
	s := servetest.Start(t, home, "usftpd", "--config", file)
	data := randomData(3_000_001)
	sum := sha256.Sum256(data)
	hash := hex.EncodeToString(sum[:])
	writeFile(t, filepath.Join(home, "f"), data)
	writeFile(t, filepath.Join(home, "empty"), nil)
	writeFile(t, filepath.Join(home, "half"), data[:2_000_000])
	sftp := func(commands string, flags ...string) {
		args := append(s.SSHFlags("-i", key), flags...)
		s.Must(commands, opensshd.Find(t, "sftp"), append(args, "-b", "-", "u@127.0.0.1")...)
	}
	for name, flags := range map[string][]string{"plain": nil, "one": {"-B", "261120", "-R", "1"},
		"small": {"-B", "5000", "-R", "200"}, "large": {"-B", "261120", "-R", "64"}} {
		sftp("put f "+name+"\nget "+name+" got."+name+"\n", flags...)
	}
	sftp("put empty\nget empty got.empty\n")
	scp := s.SSHFlags("-i", key, "-O")
	s.Must("", opensshd.Find(t, "scp"), append(scp, "f", "u@127.0.0.1:scp")...)
	s.Must("", opensshd.Find(t, "scp"), append(scp, "u@127.0.0.1:scp", "got.scp")...)
	usftp := append([]string{"cp", "-q", "-i", key}, s.SSHFlags()[2:]...)
	s.Must("", client, append(usftp, "f", "u@127.0.0.1:usftp")...)
	s.Must("", client, append(usftp, "u@127.0.0.1:usftp", "got.usftp")...)
	s.Must("", python, script, s.Port, key, "put", "f", "paramiko")
	s.Must("", python, script, s.Port, key, "get", "paramiko", "got.paramiko")
	clients := []string{"plain", "one", "small", "large", "scp", "usftp", "paramiko"}
	for _, name := range clients {
		servetest.Same(t, data, filepath.Join(home, "got."+name))
	}
	// Those that are resumed have none.
	writeFile(t, filepath.Join(home, "tail"), data[:1_000_000])
	sftp("put half part\n")
	sftp("reget part tail\n")
	writeFile(t, filepath.Join(home, "part"), data)
	sftp("reput part\n")
	for event, want := range map[string]string{"uploaded /scp": hash, "downloaded /scp": hash,
		"uploaded /one": hash, "downloaded /one": hash, "downloaded /part": ""} {
		testenv.Until(t, "a hook is told: "+event, func() bool {
			told, ok := heard()[event]
			if ok && told != want {
				t.Fatalf("a hook is told %s with the hash %q, want %q", event, told, want)
			}
			return ok
		})
	}
	s.End(15, 0)

	type transfer struct {
		path   string
		upload bool
	}
	got := map[transfer][]string{}
	for line := range strings.Lines(do(t, home, file, "", "audit", "--only", "files", "--json")) {
		var r store.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Kind != "file closed" {
			t.Fatalf("%v: %q", err, line)
		}
		of := transfer{objectfs.FinalName(r.Path), r.Upload} // in place, usftp renames at the end
		got[of] = append(got[of], r.SHA256)
	}
	expect := func(path string, upload bool, hashes ...string) {
		t.Helper()
		if was := got[transfer{path, upload}]; strings.Join(was, " ") != strings.Join(hashes, " ") {
			t.Errorf("%s, upload %v: %q, want %q", path, upload, was, hashes)
		}
	}
	for _, name := range clients {
		expect("/"+name, true, hash)
		if again := got[transfer{"/paramiko", false}]; name == "paramiko" && slices.Equal(again,
			[]string{""}) {
			continue // its threads race, and at times ask for parts twice
		}
		expect("/"+name, false, hash)
	}
	nothing := sha256.Sum256(nil)
	expect("/empty", true, hex.EncodeToString(nothing[:]))
	expect("/empty", false, hex.EncodeToString(nothing[:]))
	half := sha256.Sum256(data[:2_000_000])
	expect("/part", true, hex.EncodeToString(half[:]), "")
	expect("/part", false, "")

	rows, err := csv.NewReader(strings.NewReader(do(t, home, file, "", "audit", "--only", "files",
		"--path", "scp", "--csv"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[0][20] != "sha256" || rows[1][20] != hash {
		t.Errorf("CSV: %v, %q", err, rows)
	}
	if table := do(t, home, file, "", "audit", "--path", "scp"); !strings.Contains(table,
		"upload /scp 3.00 MB SHA-256 "+hash) {
		t.Errorf("the table:\n%s", table)
	}
}
