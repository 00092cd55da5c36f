package daemon

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, answer, want string
	}{
		{"an SSH server", "SSH-2.0-usftp\r\n", ""},
		{"another server", "220 mail.example.org ESMTP\r\n", "not an SSH server"},
		{"a server that hangs up", "", "no SSH identification"},
		{"a line without an end", strings.Repeat("x", 1000), "no SSH identification"},
	} {
		t.Run(test.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				io.WriteString(conn, test.answer)
				conn.Close()
			}()
			err = answersAsSSH(t.Context(), listener.Addr().String())
			if test.want == "" && err != nil ||
				test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		addr := fmt.Sprintf("127.0.0.1:%d", testenv.RefusedPort(t))
		if err := answersAsSSH(t.Context(), addr); err == nil {
			t.Error("no error")
		}
	})
}
