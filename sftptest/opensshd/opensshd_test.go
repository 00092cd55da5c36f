package opensshd_test

import (
	"os"
	"os/signal"
	"testing"

	"github.com/usftp/usftp/sftptest/opensshd"
)

// sshd ends with the test also where SIGINT is ignored, as in what a shell has put in the
// background: sshd inherits that.
func TestEndsWithoutInterrupts(t *testing.T) {
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	t.Run("sshd", func(t *testing.T) { opensshd.Start(t, opensshd.Options{}) })
}
