//go:build unix

package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// chromium is a page in headless Chromium, which is told what to do by its DevTools protocol over a
// pair of pipes.
type chromium struct {
	t       *testing.T
	to      io.Writer
	session string

	mu      sync.Mutex
	number  int
	answers map[int]chan json.RawMessage
	said    []string // what the browser has complained about
}

func startChromium(t *testing.T) *chromium {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if found, err := exec.LookPath(name); err == nil {
			program = found
			break
		}
	}
	if program == "" {
		testenv.Unavailable(t, "there is no chromium-headless-shell")
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--remote-debugging-pipe", "--user-data-dir="+home,
		"about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{theirs, answers} // descriptors 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	answers.Close()
	b := &chromium{t: t, to: to, answers: map[int]chan json.RawMessage{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(from)
	}()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with its children
		cmd.Wait()
		to.Close()
		from.Close()
		<-read
	})
	var target struct{ TargetID string }
	b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.do("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true},
		&attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.do(domain+".enable", nil, nil)
	}
	return b
}

// read takes answers, and what the browser complains about.
func (b *chromium) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			Result json.RawMessage
			Error  json.RawMessage
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		switch m.Method {
		case "":
			if m.Error != nil {
				b.said = append(b.said, string(m.Error))
			}
			if answer := b.answers[m.ID]; answer != nil {
				answer <- m.Result
			}
		case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled",
			"Page.javascriptDialogOpening":
			b.said = append(b.said, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// do has the browser do something, and takes the result into to, unless that is nil.
func (b *chromium) do(method string, params, to any) {
	b.t.Helper()
	answer := make(chan json.RawMessage, 1)
	b.mu.Lock()
	b.number++
	id := b.number
	b.answers[id] = answer
	b.mu.Unlock()
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	select {
	case result := <-answer:
		if to != nil {
			if err := json.Unmarshal(result, to); err != nil {
				b.t.Fatalf("%s: %v: %s, %v", method, err, result, b.complaints())
			}
		}
	case <-time.After(testenv.Patience(b.t)):
		b.t.Fatalf("Chromium does not answer to %s", method)
	}
}

// complaints returns what the browser has complained about since it was asked last.
func (b *chromium) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

// value returns what an expression is in the page, as text.
func (b *chromium) value(expression string) string {
	b.t.Helper()
	var result struct {
		Result struct{ Value any }
	}
	b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true,
		"awaitPromise": true}, &result)
	return fmt.Sprint(result.Result.Value)
}

// open opens a page.
func (b *chromium) open(url string) {
	b.t.Helper()
	b.do("Page.navigate", map[string]any{"url": url}, nil)
	testenv.Until(b.t, "the page is there", func() bool {
		return b.value("document.readyState") == "complete" &&
			strings.HasPrefix(b.value("location.href"), url)
	})
}
