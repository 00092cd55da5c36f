//go:build unix

package daemon

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/service/internal/status"
	"github.com/usftp/usftp/service/internal/store/storetest"
)

const oddName = `<img src=x onerror="document.title='run'">`

// TestStatusInBrowser: what Chromium shows of a server follows what happens there, on a phone and
// without scripts, too; names are text; orders are carried out, and those of other sites are not.
func TestStatusInBrowser(t *testing.T) {
	t.Parallel()
	b := startChromium(t)
	home, key := servetest.HomeWithKey(t)
	file, _, _ := writeConfig(t, home, key, "[admin]\n[audit]\n[store]\nfile = 'store.db'")
	do(t, home, file, "", "user add", "--root", "/usr", "--key", key+".pub", "stored")
	s := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=:0")
	page := s.Greeting["status"]
	conn, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
	if err != nil {
		t.Fatal(err)
	}
	client := aliceOn(t, conn, key)

	b.open(page)
	b.value("window.same = true")
	upload, err := client.Create(oddName)
	if err == nil {
		_, err = upload.Write(make([]byte, 300_000))
	}
	if err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "the page shows the upload", func() bool {
		text := b.value("document.body.innerText")
		return strings.Contains(text, oddName) && strings.Contains(text, "300 kB")
	})
	if b.value("window.same") != "true" {
		t.Error("the page was loaded again")
	}
	b.value("window.markup = document.querySelectorAll('main img, main script').length")
	if got := b.value("window.markup + document.title"); got != "0usftpd" {
		t.Errorf("a name is markup: %s", got)
	}
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser says %q", said)
	}

	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": 360, "height": 740,
		"deviceScaleFactor": 2, "mobile": true}, nil)
	testenv.Until(t, "the page is on a phone", func() bool { return b.value("screen.width") == "360" })
	if width := b.value("document.documentElement.scrollWidth"); width != "360" {
		t.Errorf("on a phone the page is %s wide", width)
	}
	b.screenshot("phone")
	b.do("Emulation.clearDeviceMetricsOverride", nil, nil)
	b.screenshot("page")

	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<iframe src="%s"></iframe>
			<form method=post target=there action="%sdo/users/disable">
			<input name=user value=stored></form><iframe name=there></iframe>
			<script>document.forms[0].submit()</script>`, page, page)
	}))
	defer evil.Close()
	b.open(evil.URL)
	refused := ""
	testenv.Until(t, "the browser refuses to show the page in a frame", func() bool {
		refused += strings.Join(b.complaints(), "\n")
		return strings.Contains(refused, "frame-ancestors") && strings.Contains(refused, "403")
	})
	if list := do(t, home, file, "", "user list"); strings.Contains(list, "disabled") {
		t.Errorf("another site has disabled a user:\n%s", list)
	}

	b.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	b.open(page)
	if text := b.value("document.body.innerText"); !strings.Contains(text, oddName) {
		t.Errorf("without scripts: %q", text)
	}
	if again := b.value("document.querySelector('noscript > meta').content"); again != "15" {
		t.Errorf("without scripts the page is loaded again after %q", again)
	}
	b.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": false}, nil)

	b.open(page)
	b.complaints()
	b.value("document.querySelector('form[action=\"/do/sessions/end\"] button').click()")
	s.WaitFor("administered", 1)
	s.WaitFor("file abandoned", 1)
	if err := upload.Close(); err == nil {
		t.Error("the session has not ended")
	}
	testenv.Until(t, "the page shows that", func() bool {
		return strings.Contains(b.value("document.body.innerText"), "file abandoned")
	})
	b.value("document.querySelector('form[action=\"/do/users/disable\"] button').click()")
	testenv.Until(t, "the user is disabled", func() bool {
		return strings.Contains(do(t, home, file, "", "user list"), "disabled")
	})
	if said := b.complaints(); len(said) > 0 {
		t.Errorf("the browser says %q", said)
	}
	s.End(15, 0)
	trail := do(t, home, file, "", "audit", "--only", "admin")
	if strings.Count(trail, "\n") != 3 || !strings.Contains(trail, "ended session") ||
		!strings.Contains(trail, "disabled user stored") {
		t.Errorf("the trail:\n%s", trail)
	}
}

// selfSigned makes a certificate, tls.pem, with its key, tls.key, and a client that trusts it.
func selfSigned(t *testing.T, dir string) (client *http.Client, file string) {
	t.Helper()
	public, secret, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, secret)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "tls.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	writeFile(t, file, text)
	key := filepath.Join(dir, "tls.key")
	writeFile(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: trusted}}}, file
}

// screenshot keeps a picture of the page where USFTP_SCREENSHOTS says, if it does.
func (b *chromium) screenshot(name string) {
	b.t.Helper()
	var picture struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png"}, &picture)
	data, err := base64.StdEncoding.DecodeString(picture.Data)
	if err != nil || len(data) < 5000 {
		b.t.Errorf("a picture of %d bytes, %v", len(data), err)
	}
	if dir := os.Getenv("USFTP_SCREENSHOTS"); dir != "" {
		writeFile(b.t, filepath.Join(dir, name+".png"), data)
	}
}

// TestStatusOfNodes: each of two nodes shows both, over TLS and with a token, and ends a session
// and a user's on the other.
func TestStatusOfNodes(t *testing.T) {
	t.Parallel()
	home, key := servetest.HomeWithKey(t)
	const token = "a token of the admin"
	writeFile(t, filepath.Join(home, "token"), []byte(token+"\n"))
	os.Chmod(filepath.Join(home, "token"), 0o600)
	client, certificate := selfSigned(t, home)
	more := fmt.Sprintf("[admin]\ntoken = 'token'\ncertificate = %q\nkey = 'tls.key'\n"+
		"[store]\nurl = '%s'", certificate, storetest.Postgres(t))
	file, _, _ := writeConfig(t, home, key, more)
	do(t, home, file, "", "user add", "--root", home, "--key", key+".pub", "stored")
	one := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=127.0.0.1:0")
	two := servetest.Start(t, home, "usftpd", "--config", file, "--metrics=127.0.0.1:0")
	ask := func(method, path, form string, code int) (text []byte) {
		t.Helper()
		r, _ := http.NewRequest(method, one.Greeting["status"]+path, strings.NewReader(form))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		text, err = io.ReadAll(w.Body)
		if err != nil || w.StatusCode != code {
			t.Fatalf("%s %s: %s, %v\n%s", method, path, w.Status, err, text)
		}
		return text
	}
	logins := func(user string) (node string, id uint64) {
		var s status.Status
		if err := json.Unmarshal(ask("GET", "api/v1/status", "", 200), &s); err != nil {
			t.Fatal(err)
		}
		for _, n := range s.Nodes {
			for _, l := range n.Logins {
				if l.User == user && n.Node != s.Node {
					node, id = n.Node, l.ID
				}
			}
		}
		return node, id
	}
	for _, user := range []string{"alice", "stored"} {
		conn, err := net.Dial("tcp", "127.0.0.1:"+two.Port)
		if err != nil {
			t.Fatal(err)
		}
		session, err := loginAs(t, conn, user, key)
		if err != nil {
			t.Fatal(err)
		}
		node, id := "", uint64(0)
		testenv.Until(t, "one node shows the other's session", func() bool {
			node, id = logins(user)
			return id > 0
		})
		if user == "alice" {
			ask("POST", "api/v1/sessions/end", fmt.Sprintf("node=%s&id=%d", node, id), 200)
		} else {
			ask("POST", "api/v1/users/disable", "user=stored", 200)
		}
		session.Wait()
	}
	ask("POST", "api/v1/users/disable", "user=alice", 404)
	if !strings.Contains(string(ask("GET", "metrics", "", 200)), "usftp_connections") {
		t.Error("there are no metrics")
	}
	plain, err := client.Get(one.Greeting["status"] + "api/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	plain.Body.Close()
	if plain.StatusCode != 401 {
		t.Errorf("without the token: %s", plain.Status)
	}
}
