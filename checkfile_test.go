package usftp_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

func md5Of(p []byte) []byte { h := md5.Sum(p); return h[:] }

func TestCheckFile(t *testing.T) {
	data := noise(3 << 20)
	whole := sha256.Sum256(data)
	for name, offer := range map[string][]wire.ExtensionPair{
		"handle":   {{Name: wire.ExtCheckFileHandle, Data: ""}},
		"name":     {{Name: wire.ExtCheckFileName, Data: ""}},
		"both":     {{Name: wire.ExtCheckFile, Data: "1"}, {Name: wire.ExtCheckFileHandle}, {Name: wire.ExtCheckFileName}},
		"paramiko": {{Name: wire.ExtCheckFile, Data: "md5,sha1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sftptest.Script{Extensions: offer}, 0)
			r.server.Files.WriteFile("/f", data)
			if !r.HasCheckFile() {
				t.Error("HasCheckFile is false")
			}
			got, err := r.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"sha256"}})
			if err != nil || len(got.Hashes) != 1 || !bytes.Equal(got.Hashes[0], whole[:]) || got.Algorithm != "sha256" {
				t.Errorf("%+v, %v", got, err)
			}
			// So many blocks that they take more than one request; the last is shorter.
			blocks, err := r.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"md5"}, BlockSize: 1000, Offset: 1})
			if err != nil || len(blocks.Hashes) != (3<<20-1+999)/1000 {
				t.Fatalf("%v", err)
			}
			for i, h := range blocks.Hashes {
				from := 1 + i*1000
				want := md5.Sum(data[from:min(from+1000, len(data))])
				if !bytes.Equal(h, want[:]) {
					t.Fatalf("block %d: %s", i, hex.EncodeToString(h))
				}
			}
			if _, err := r.CheckFile("/f", usftp.CheckFile{BlockSize: 10}); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("blocks of 10 bytes: %v", err)
			}
			if _, err := r.CheckFile("/none", usftp.CheckFile{}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of nothing: %v", err)
			}
		})
	}
	r := newRig(t, sftptest.Script{}, 0)
	if _, err := r.CheckFile("/f", usftp.CheckFile{}); r.HasCheckFile() || !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
