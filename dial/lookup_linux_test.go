package dial

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

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

// TestNameThatTheSystemLooksUpForLong: ConnectTimeout limits this, too.
func TestNameThatTheSystemLooksUpForLong(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(writeFile(t, dir+"/getent", "#!/bin/sh\nexec sleep 100\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	dialError(t, Target{Host: "board.invalid"}, &Config{ConfigFile: writeFile(t, dir+"/conf", ""),
		Options: []string{"ConnectTimeout=1"}, Env: append(os.Environ(),
			"PATH="+dir+":"+os.Getenv("PATH"))})
	if took := time.Since(began); took > resolveTimeout/2 {
		t.Errorf("it took %v", took)
	}
}
