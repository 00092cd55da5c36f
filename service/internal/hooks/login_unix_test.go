//go:build unix

package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/usftp/usftp/service/internal/outside"
)

// TestLoginHook: only a whole yes lets somebody in, only a whole no is a refusal, and what is asked
// can be told from what others ask.
func TestLoginHook(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef")
	question := outside.Question{User: "ann", Password: "p'a $(id) s", Remote: "192.0.2.7:1"}
	type asked struct {
		header http.Header
		body   []byte
	}
	got := make(chan asked, 1)
	status, answer := 200, ""
	var leave context.CancelFunc // ends the question
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- asked{r.Header, body}
		if status == 0 {
			leave()
			<-r.Context().Done()
			return
		}
		if status == 302 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	defer server.Close()
	dir := t.TempDir()
	command := filepath.Join(dir, "command")
	if err := os.WriteFile(command, []byte(`#!/bin/sh
cat >`+dir+`/question
env >`+dir+`/environment
[ $(cat `+dir+`/status) = 0 ] && sleep 1000
cat `+dir+`/answer
[ $(cat `+dir+`/status) = 200 ]
`), 0o700); err != nil {
		t.Fatal(err)
	}
	post := NewLoginHook(&Hook{URL: server.URL + "/login", Secret: secret})
	run := NewLoginHook(&Hook{Command: []string{command}})
	ids := map[string]bool{}
	for _, c := range []struct {
		status         int
		answer         string
		accept, refuse bool
	}{
		{200, `{"accept": true}`, true, false},
		{200, `{"accept": true, "outside": "staff"}`, true, false},
		{200, `{"accept": false, "reason": "no such user"}`, false, true},
		{200, `{"accept": false}`, false, true},
		{200, `{"accept": null}`, false, false},
		{200, `{"accept": "true"}`, false, false},
		{200, `{"accept": true`, false, false},
		{200, `{"accept": true} {"accept": false}`, false, false},
		{200, `{"accept": false, "reason": "x", "accept": true}`, false, false},
		{200, `{"accept": false, "ACCEPT": true}`, false, false},
		{200, `{}`, false, false},
		{200, ``, false, false},
		{200, `{"accept": true, "reason": "` + strings.Repeat("x", mostAnswer) + `"}`, false,
			false},
		{403, `{"accept": true}`, false, false},
		{500, `{"accept": false}`, false, false},
		{302, `{"accept": true}`, false, false},
		{0, ``, false, false},
	} {
		status, answer = c.status, c.answer
		for name, text := range map[string]string{"answer": answer,
			"status": strconv.Itoa(status)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for how, hook := range map[string]*LoginHook{"url": post, "command": run} {
			patience := 5 * time.Minute
			if status == 0 && how == "command" {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			leave = cancel
			said, err := hook.Ask(ctx, question)
			cancel()
			_, refused := errors.AsType[*outside.Refusal](err)
			if (err == nil) != c.accept || refused != c.refuse {
				t.Errorf("%s: %d %.100s: %v", how, c.status, c.answer, err)
			}
			// The source is there, whatever it says.
			if answered := c.status == 200 && !c.accept && !c.refuse; errors.Is(err,
				outside.ErrAnswered) != answered {
				t.Errorf("%s: %d %.100s: %v: answered?", how, c.status, c.answer, err)
			}
			if want := strings.Contains(c.answer, "staff"); (said.Template == "staff") != want {
				t.Errorf("%s: %s: settings of %q", how, c.answer, said.Template)
			}
			if err != nil && strings.Contains(err.Error(), question.Password) {
				t.Errorf("%s: the error has the password: %v", how, err)
			}
		}
		one := <-got
		signed := http.Header{}
		id, stamp := one.header.Get("Webhook-Id"), one.header.Get("Webhook-Timestamp")
		when, err := time.ParseDuration(stamp + "s")
		if err != nil {
			t.Fatal(err)
		}
		if sign(signed, secret, id, time.Unix(int64(when.Seconds()), 0), one.body); ids[id] ||
			id == "" || signed.Get("Webhook-Signature") != one.header.Get("Webhook-Signature") {
			t.Errorf("the signature of %s: %v", one.body, one.header)
		}
		ids[id] = true
		if c.status == 0 {
			continue
		}
		piped, err := os.ReadFile(filepath.Join(dir, "question"))
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range [][]byte{one.body, piped} {
			var q loginQuestion
			if err := json.Unmarshal(body, &q); err != nil || q.User != "ann" || q.ID == "" ||
				q.Password != question.Password || q.Remote != question.Remote ||
				q.Kind != "authenticate" || time.Since(q.Time) > time.Hour {
				t.Errorf("asked %s, %v", body, err)
			}
		}
	}
	environment, err := os.ReadFile(filepath.Join(dir, "environment"))
	if err != nil || strings.Contains(string(environment), question.Password) ||
		strings.Contains(string(environment), "USFTP") {
		t.Errorf("the environment is %s, %v", environment, err)
	}
}
