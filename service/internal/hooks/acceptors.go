package hooks

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strings"
	"time"
	"unicode"
)

// acceptPoster posts the contents to a URL. The event is in a header, and only it is signed.
type acceptPoster struct{ *poster }

func (p *acceptPoster) check(ctx context.Context, e *Event, contents *io.SectionReader) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var body io.Reader = contents
	if contents.Size() == 0 {
		body = http.NoBody
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.hook.URL, body)
	if err != nil {
		return err
	}
	request.ContentLength = contents.Size()
	if request.GetBody == nil {
		request.GetBody = func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(contents, 0, contents.Size())), nil
		}
	}
	event := base64.StdEncoding.EncodeToString(text)
	request.Header.Set("Content-Type", "application/octet-stream")
	request.Header.Set("User-Agent", "usftpd")
	request.Header.Set("Usftp-Event", event)
	sign(request.Header, p.hook.Secret, e.ID, time.Now(), []byte(event))
	err = p.do(request)
	if answer, ok := errors.AsType[*statusError](err); ok && (answer.code == http.StatusForbidden ||
		answer.code == http.StatusUnprocessableEntity) {
		return &refusal{firstLine(answer.start)}
	}
	return err
}

// acceptCommander runs a command whose standard input is the contents. It ends with 0 to accept
// them, and with 1 to refuse, as clamdscan does.
type acceptCommander struct{ hook *Hook }

func (c *acceptCommander) check(ctx context.Context, e *Event, contents *io.SectionReader) error {
	cmd := command(ctx, c.hook.Command, environment(e))
	cmd.Stdin = contents
	var said start
	cmd.Stdout, cmd.Stderr = &said, &said
	err := run(cmd)
	killed := runtime.GOOS == "windows" && ctx.Err() != nil // which ends it with 1 there
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 && !killed {
		return &refusal{firstLine(said)}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %q", c.hook.Command[0], err, bytes.TrimSpace(said))
	}
	return nil
}

// firstLine returns the first line of an answer, to be shown to the client.
func firstLine(said []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
	if line = printable(line); line == "" {
		return "no reason was given"
	}
	return line
}

// printable replaces characters that no message should have, and cuts long texts.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return text[:min(len(text), mostShown)]
}
