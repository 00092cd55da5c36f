package connect

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/conn"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// A host whose connection can be replaced is lost only if the copy that failed could not replace
// it.
func TestCheckAll(t *testing.T) {
	h := newHosts(pool.ConnectConfig{
		Dial: &dial.Config{Server: opensshd.Find(t, "sftp-server")}}, nil)
	defer h.Close()
	target := dial.Target{Host: "any"}
	for _, test := range []struct {
		failed, want error
	}{
		{errors.New("the source has changed"), nil},
		{fmt.Errorf("cannot copy one file: %w", conn.Unanswered{Err: &usftp.StallError{}}), nil},
		{net.ErrClosed, ErrHostLost},
	} {
		host := h.Get(t.Context(), target)
		if host.Err != nil {
			t.Fatal(host.Err)
		}
		host.Client.Close()
		h.CheckAll(test.failed)
		if err := h.Get(t.Context(), target).Err; err != test.want {
			t.Errorf("after %q: %v", test.failed, err)
		}
	}
}
