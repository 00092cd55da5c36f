package hooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// poster posts events to a URL, as in the Standard Webhooks specification
// (https://www.standardwebhooks.com).
type poster struct {
	hook   *Hook
	client *http.Client
}

const (
	// mostAnswer is how much of an answer is read. After a longer one the connection is closed.
	mostAnswer = 64 << 10

	// mostShown is how much of an answer, or of a command's output, is shown in an error.
	mostShown = 200
)

func newPoster(hook *Hook) *poster {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = hook.AtOnce
	transport.MaxResponseHeaderBytes = mostAnswer
	return &poster{hook, &http.Client{
		Transport: &repeater{transport},
		// The signature is for the URL that was configured, and for no other.
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}
}

// repeater repeats a request that found a kept connection closed: the web service may close it just
// as the request is sent. By the ID it knows a request that it has had already.
type repeater struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper].
func (r *repeater) RoundTrip(request *http.Request) (*http.Response, error) {
	var kept, answered atomic.Bool
	response, err := r.Transport.RoundTrip(request.WithContext(httptrace.WithClientTrace(
		request.Context(), &httptrace.ClientTrace{
			GotConn:              func(got httptrace.GotConnInfo) { kept.Store(got.Reused) },
			GotFirstResponseByte: func() { answered.Store(true) },
		})))
	if err == nil || !kept.Load() || answered.Load() || request.Context().Err() != nil {
		return response, err
	}
	r.CloseIdleConnections() // which are as old
	request = request.Clone(request.Context())
	if request.GetBody != nil {
		if request.Body, err = request.GetBody(); err != nil {
			return nil, err
		}
	}
	return r.Transport.RoundTrip(request)
}

func (p *poster) send(ctx context.Context, e *Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.hook.URL,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "usftpd")
	sign(request.Header, p.hook.Secret, e.ID, time.Now(), body)
	return p.do(request)
}

// sign sets the headers from which receivers learn who sent the message and when, and whether they
// have had it before.
func sign(header http.Header, secret []byte, id string, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", stamp)
	if len(secret) == 0 {
		return
	}
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.", id, stamp)
	mac.Write(body)
	header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// do sends a request, which succeeds with any status of 200 to 299.
func (p *poster) do(request *http.Request) error {
	response, err := p.client.Do(request)
	if err != nil {
		return unanswered(request, err)
	}
	defer response.Body.Close()
	start, _ := io.ReadAll(io.LimitReader(response.Body, mostShown))
	io.Copy(io.Discard, io.LimitReader(response.Body, mostAnswer))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return &statusError{request.URL.Host, response.Status, response.StatusCode, start}
	}
	return nil
}

// unanswered returns an error that does not show the URL, which may contain a secret.
func unanswered(request *http.Request, err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return fmt.Errorf("%s does not answer: %w", request.URL.Host, err)
}

// statusError is an answer with a status outside 200 to 299.
type statusError struct {
	host, status string
	code         int
	start        []byte // of the body
}

func (s *statusError) Error() string {
	return fmt.Sprintf("%s answers %s: %q", s.host, s.status, bytes.TrimSpace(s.start))
}
