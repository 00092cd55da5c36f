package hooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/usftp/usftp/service/internal/outside"
)

// A LoginHook asks a program of the operator's whether to let a user in: what answers at a URL, or
// a command. It implements [outside.Source].
type LoginHook struct {
	hook   *Hook
	client *http.Client
}

// NewLoginHook returns a LoginHook for the URL and the secret, or the command, of a hook.
func NewLoginHook(hook *Hook) *LoginHook {
	return &LoginHook{hook, newPoster(hook).client}
}

// loginQuestion is what is asked, and loginAnswer the answer. One without accept is none.
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
	var answer loginAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return outside.Answer{}, fmt.Errorf("the answer of the login hook is not what it should be: %w",
			err)
	}
	switch {
	case answer.Accept == nil:
		return outside.Answer{}, errors.New("the answer of the login hook has no accept")
	case !*answer.Accept:
		return outside.Answer{}, &outside.Refusal{Reason: "the login hook refuses: " +
			firstLine([]byte(answer.Reason))}
	}
	return outside.Answer{Template: answer.Outside}, nil
}

func (l *LoginHook) post(ctx context.Context, id string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.hook.URL, bytes.NewReader(body))
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
		err = fmt.Errorf("the answer is longer than %d bytes", mostAnswer)
	}
	return text, err
}

// run runs the command, which gets the question on standard input: the environment of a process can
// be read by others on some systems.
func (l *LoginHook) run(ctx context.Context, _ string, body []byte) ([]byte, error) {
	cmd := command(ctx, l.hook.Command, inherited())
	cmd.Stdin = bytes.NewReader(append(body, '\n'))
	var said start
	var answer longest
	cmd.Stdout, cmd.Stderr = &answer, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w: %q", l.hook.Command[0], err, bytes.TrimSpace(said))
	}
	return answer, nil
}

// longest keeps what is written to it, up to the longest answer.
type longest []byte

func (l *longest) Write(p []byte) (int, error) {
	if len(*l)+len(p) > mostAnswer {
		return 0, fmt.Errorf("the answer is longer than %d bytes", mostAnswer)
	}
	*l = append(*l, p...)
	return len(p), nil
}
