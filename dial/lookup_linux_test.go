package dial

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// TestNameOfTheSystem: a name is found that only the C library knows, as it knows those of
// multicast DNS.
func TestNameOfTheSystem(t *testing.T) {
	srv, dir := opensshd.Start(t, opensshd.Options{}), t.TempDir()
	hosts := writeFile(t, dir+"/hosts", "::1 board.invalid\n127.0.0.1 board.invalid\n")
	c := &Config{ConfigFile: srv.ConfigFile, Options: []string{"HostName=board.invalid",
		"HostKeyAlias=[127.0.0.1]:" + fmt.Sprint(srv.Port)}, Env: append(append(os.Environ(),
		testenv.Accounts(t, dir, "me", "")...), "NSS_WRAPPER_HOSTS="+hosts)}
	for _, family := range []string{"", "inet"} {
		c.AddressFamily = family
		connect(t, Target{Host: srv.Alias}, c).Close()
	}
	c.AddressFamily = "inet6"
	if err := dialError(t, Target{Host: srv.Alias}, c); !errors.Is(err, syscall.ECONNREFUSED) ||
		!strings.Contains(err.Error(), "[::1]") {
		t.Errorf("over IPv6: %v", err)
	}
}
