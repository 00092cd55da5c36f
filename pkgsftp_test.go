package usftp_test

import (
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
)

// A program written for pkg/sftp sets what has no effect here, and works.
func TestOptionsOfPkgSFTP(t *testing.T) {
	r := newRig(t, sftptest.Script{}, 0, usftp.UseConcurrentReads(false),
		usftp.UseConcurrentWrites(true), usftp.UseFstat(true),
		usftp.MaxConcurrentRequestsPerFile(1),
		usftp.MaxPacketUnchecked(1<<20), usftp.MaxPacketChecked(1<<15), usftp.MaxPacket(1<<15))
	data := make([]byte, 100_000)
	if err := r.Client.WriteFile("/a", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Client.ReadFile("/a"); err != nil || len(got) != len(data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
