package dial

import (
	"bytes"
	"encoding/binary"
	"flag"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
)

func TestMain(m *testing.M) {
	if pin := os.Getenv(helperEnv); pin != "" {
		helpWithPIN(pin)
		return
	}
	// Those that run beside each other mostly wait: for servers, and for time that must pass.
	flag.Set("test.parallel", "8")
	os.Exit(testenv.InMemory(m))
}

// helperEnv makes the test's own program an ssh-sk-helper that wants a PIN; its value is the PIN.
const helperEnv = "USFTP_TEST_SK_HELPER"

// helpWithPIN is OpenSSH's helper, for a token that wants a PIN: sk-dummy has none.
func helpWithPIN(pin string) {
	request, _ := io.ReadAll(os.Stdin)
	if !bytes.HasSuffix(request, ssh.Marshal(struct{ PIN string }{pin})) {
		os.Stdout.Write([]byte{0, 0, 0, 9, helperVersion, 0, 0, 0, helperError, 0, 0, 0,
			wrongPassphrase})
		return
	}
	request = append(request[:len(request)-len(pin)-4], 0, 0, 0, 0)
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	cmd := exec.Command(os.Getenv("REAL_HELPER"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(request), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
}
