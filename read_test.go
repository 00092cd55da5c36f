package usftp_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
)

func noise(size int) []byte {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	return data
}

func TestWholeFiles(t *testing.T) {
	const rtt = 20 * time.Millisecond
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftptest.Script{}, rtt)
		for _, size := range []int{0, 1, 4096, 1 << 20} {
			data := noise(size)
			if took := trips(rtt, func() { ok(t, r.WriteFile("/f", data, 0o640)) }); took > 3 {
				t.Errorf("WriteFile of %d bytes took %v round trips", size, took)
			}
			var got []byte
			if took := trips(rtt, func() { got = must[[]byte](t)(r.ReadFile("/f")) }); took > 2 {
				t.Errorf("ReadFile of %d bytes took %v round trips", size, took)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back as %d others", size, len(got))
			}
		}
		if info := must[fs.FileInfo](t)(r.Stat("/f")); info.Mode() != 0o640 {
			t.Errorf("mode %v", info.Mode())
		}
		if _, err := r.ReadFile("/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}
