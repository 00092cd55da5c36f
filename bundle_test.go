package usftp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/wire"
)

// filesServer answers requests for several files with what answer returns; nil is no answer.
func filesServer(t *testing.T, answer func(id uint32, request []byte) []byte) *usftp.Client {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		for {
			var head [4]byte
			if _, err := io.ReadFull(far, head[:]); err != nil {
				return
			}
			packet := make([]byte, int(head[2])<<8|int(head[3]))
			if _, err := io.ReadFull(far, packet); err != nil {
				return
			}
			typ, id, body, err := wire.ParseHeader(packet)
			if err != nil {
				return
			}
			var reply []byte
			if typ == wire.TypeInit {
				reply = wire.InitReply{Version: wire.Version, Extensions: []wire.ExtensionPair{
					{Name: wire.ExtPutFiles, Data: "1"}, {Name: wire.ExtGetFiles, Data: "1"},
					{Name: wire.ExtBeneath, Data: "2"}}}.Append(nil)
			} else {
				reply = answer(id, body)
			}
			if _, err := far.Write(reply); err != nil {
				return
			}
		}
	}()
	client, err := usftp.NewClientPipe(near, near, usftp.WithStallTimeout(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		<-done
	})
	return client
}

// TestHostileAnswersAboutFiles: whatever a server answers, a file that is got has the contents that
// were sent for it, and all others have an error.
func TestHostileAnswersAboutFiles(t *testing.T) {
	with := func(payload []byte) func(uint32, []byte) []byte {
		return func(id uint32, _ []byte) []byte {
			return wire.ExtendedReply{Payload: payload}.Append(nil, id)
		}
	}
	status := func(code wire.Code) func(uint32, []byte) []byte {
		return func(id uint32, _ []byte) []byte { return wire.Status{Code: code}.Append(nil, id) }
	}
	got := func(text string) []byte { return (&wire.GotFile{Data: []byte(text)}).Append(nil) }
	refused := wire.FileStatus{Code: wire.PermissionDenied, Message: "no"}.Append(nil)
	var protocol *usftp.ProtocolError
	var statusError *usftp.StatusError
	for name, test := range map[string]struct {
		answer func(uint32, []byte) []byte
		want   func(err error) bool
	}{
		"as it should be": {with(got("text")), func(err error) bool { return err == nil }},
		"more than asked": {with(append(got("text"), 1, 2, 3)),
			func(err error) bool { return err == nil }},
		"another size": {with(got("more text")),
			func(err error) bool { return errors.Is(err, private.ErrOtherSize) }},
		"nothing": {with(nil), func(err error) bool { return errors.As(err, &protocol) }},
		"cut":     {with(got("text")[:14]), func(err error) bool { return errors.As(err, &protocol) }},
		"refused": {with(refused), func(err error) bool { return errors.As(err, &statusError) }},
		"a status": {status(wire.Failure),
			func(err error) bool { return errors.As(err, &statusError) }},
		"success": {status(wire.OK),
			func(err error) bool { return errors.As(err, &protocol) }},
	} {
		t.Run(name, func(t *testing.T) {
			client := filesServer(t, test.answer)
			var memory []byte
			_, err := private.OfClient(client).GetFile("/f", 4, func() []byte {
				memory = make([]byte, 4)
				return memory
			})
			if !test.want(err) {
				t.Errorf("the error is %v", err)
			}
			if err == nil && string(memory) != "text" || err != nil && memory != nil {
				t.Errorf("the contents are %q", memory)
			}
		})
	}
}

// TestFilesNeedNoAnswer: a file that waits for its turn, or for an answer that never comes, ends
// with its context, and with the connection.
func TestFilesNeedNoAnswer(t *testing.T) {
	client := filesServer(t, func(uint32, []byte) []byte { return nil })
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	errs := make(chan error)
	const files = 20
	put := func(c *usftp.Client) {
		errs <- private.OfClient(c).StartPut("/f", ".f", []byte("text"), 0o600, usftp.NewAttrs{}, false)()
	}
	for range files {
		go put(client.WithContext(ctx))
	}
	cancel(cause)
	for range files {
		if err := <-errs; !errors.Is(err, cause) {
			t.Errorf("the context ended, and a file failed with %v", err)
		}
	}
	for range files {
		go put(client)
	}
	client.Close()
	for range files {
		if err := <-errs; err == nil || errors.Is(err, cause) {
			t.Errorf("the client was closed, and a file ended with %v", err)
		}
	}
}

// TestFilesShareNoOtherView: files that must not be reached through links share no request with
// others, also where the view begins at the login directory.
func TestFilesShareNoOtherView(t *testing.T) {
	requests := make(chan string, 300)
	client := filesServer(t, func(_ uint32, request []byte) []byte {
		requests <- string(request)
		return nil
	})
	view, offered := private.OfClient(client).Beneath("")
	if !offered {
		t.Fatal("there is no view")
	}
	put := func(c *usftp.Client, name string) {
		private.OfClient(c).StartPut(name, name+"~", nil, 0o600, usftp.NewAttrs{}, false)
	}
	put(client, "/free 1") // while these two are on their way, others share requests
	put(client, "/free 2")
	for range wire.MostFiles / 2 {
		put(view, "guarded")
		put(client, "free")
	}
	for range 3 {
		request := <-requests
		beneath := strings.Contains(request, wire.ExtBeneath)
		if beneath == strings.Contains(request, "free") ||
			beneath != strings.Contains(request, "guarded") {
			t.Errorf("beneath: %v, in %.200q", beneath, request)
		}
	}
}
