package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/usftp/usftp/service/internal/outside"
)

// A LoginHook asks a web service or a command of the operator's whether to let a user in. It
// implements [outside.Source].
type LoginHook struct {
	hook   *Hook
	client *http.Client
}

// NewLoginHook returns a LoginHook for the URL and the secret, or the command, of a hook.
func NewLoginHook(hook *Hook) *LoginHook {
	return &LoginHook{hook, newPoster(hook).client}
}

// loginQuestion is the question, and loginAnswer the answer, which must have accept.
type loginQuestion struct {
	ID       string    `json:"id"`
	Kind     string    `json:"kind"`
	Time     time.Time `json:"time"`
	User     string    `json:"user"`
	Remote   string    `json:"remote"`
	Password string    `json:"password"`
}

type loginAnswer struct {
	Accept  *bool  `json:"accept"`
	Reason  string `json:"reason"`
	Outside string `json:"outside"`
}

// Ask implements [outside.Source]. Only a whole answer in time decides anything.
func (l *LoginHook) Ask(ctx context.Context, q outside.Question) (outside.Answer, error) {
	asked := loginQuestion{ID: rand.Text(), Kind: "authenticate", Time: time.Now().UTC(),
		User: q.User, Remote: q.Remote, Password: q.Password}
	body, err := json.Marshal(asked)
	if err != nil {
		return outside.Answer{}, err
	}
	ask := l.post
	if l.hook.URL == "" {
		ask = l.run
	}
	text, err := ask(ctx, asked.ID, body)
	if err != nil {
		return outside.Answer{}, err
	}
	answer, err := parseAnswer(text)
	if err != nil {
		return outside.Answer{}, fmt.Errorf("the login hook: %w: %w", outside.ErrAnswered, err)
	}
	switch {
	case answer.Accept == nil:
		return outside.Answer{}, fmt.Errorf("the login hook: %w: it has no accept",
			outside.ErrAnswered)
	case !*answer.Accept:
		return outside.Answer{}, &outside.Refusal{Reason: "the login hook refuses: " +
			firstLine([]byte(answer.Reason))}
	}
	return outside.Answer{Template: answer.Outside}, nil
}

// parseAnswer parses an answer. encoding/json would take the last of two values of one name, so a
// user whose name a careless program pastes into the answer could add a yes to its no.
func parseAnswer(text []byte) (answer loginAnswer, err error) {
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.Token() // the brace
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return answer, err
		}
		// What Unmarshal takes for one name is equal under case folding.
		name := strings.ToLower(strings.ToUpper(fmt.Sprint(token)))
		if seen[name] {
			return answer, fmt.Errorf("it has %q twice", token)
		}
		seen[name] = true
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return answer, err
		}
	}
	return answer, nil
}

func (l *LoginHook) post(ctx context.Context, id string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.hook.URL,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "usftpd")
	sign(request.Header, l.hook.Secret, id, time.Now(), body)
	response, err := l.client.Do(request)
	if err != nil {
		return nil, unanswered(request, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, &statusError{request.URL.Host, response.Status, response.StatusCode,
			text[:min(len(text), mostShown)]}
	}
	if err == nil && len(text) > mostAnswer {
		err = errLongAnswer
	}
	return text, err
}

var errLongAnswer = fmt.Errorf("the login hook: %w: it is longer than %d bytes",
	outside.ErrAnswered, mostAnswer)

// run runs the command. It gets the question on standard input and not in its environment, which
// others can read on some systems.
func (l *LoginHook) run(ctx context.Context, _ string, body []byte) ([]byte, error) {
	cmd := command(ctx, l.hook.Command, inherited())
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	var said start
	var answer longest
	cmd.Stdout, cmd.Stderr = &answer, &said
	if err := run(cmd); err != nil {
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case answer.over: // of which it may have died
			err = errLongAnswer
		}
		return nil, fmt.Errorf("%s: %w: %q", l.hook.Command[0], err, bytes.TrimSpace(said))
	}
	return answer.text, nil
}

// longest is a writer that keeps an answer, up to a limit.
type longest struct {
	text []byte
	over bool
}

func (l *longest) Write(p []byte) (int, error) {
	if l.over = l.over || len(l.text)+len(p) > mostAnswer; l.over {
		return 0, errLongAnswer
	}
	l.text = append(l.text, p...)
	return len(p), nil
}
