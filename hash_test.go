package usftp_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"slices"
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
		"handle": {{Name: wire.ExtCheckFileHandle, Data: ""}},
		"name":   {{Name: wire.ExtCheckFileName, Data: ""}},
		"both": {{Name: wire.ExtCheckFile, Data: "1"}, {Name: wire.ExtCheckFileHandle},
			{Name: wire.ExtCheckFileName}},
		"paramiko": {{Name: wire.ExtCheckFile, Data: "md5,sha1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, sftptest.Script{Extensions: offer}, 0)
			r.server.Files.WriteFile("/f", data)
			if !r.HasCheckFile() {
				t.Error("HasCheckFile is false")
			}
			got, err := r.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"sha256"}})
			if err != nil || len(got.Hashes) != 1 || !bytes.Equal(got.Hashes[0], whole[:]) ||
				got.Algorithm != "sha256" {
				t.Errorf("%+v, %v", got, err)
			}
			// So many blocks that they need more than one request; the last is shorter.
			blocks, err := r.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"md5"},
				BlockSize: 1000, Offset: 1})
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
			// Beyond the end, in one request and in several.
			for _, size := range []int{1000, 1 << 20} {
				for _, offset := range []int64{3<<20 - 2500, 1 << 20, 0} {
					want, err := r.CheckFile("/f", usftp.CheckFile{BlockSize: size, Offset: offset})
					if err != nil {
						t.Fatal(err)
					}
					for _, length := range []int64{3 << 20, 3<<20 + 500, 1 << 40} {
						got, err := r.CheckFile("/f", usftp.CheckFile{BlockSize: size,
							Offset: offset, Length: length})
						if err != nil || !slices.EqualFunc(got.Hashes, want.Hashes, bytes.Equal) {
							t.Errorf("%d bytes from %d in blocks of %d: %v", length, offset, size, err)
						}
					}
				}
			}
			if _, err := r.CheckFile("/f", usftp.CheckFile{BlockSize: 10}); !errors.Is(err,
				fs.ErrInvalid) {
				t.Errorf("blocks of 10 bytes: %v", err)
			}
			if got, err := r.CheckFile("/f", usftp.CheckFile{BlockSize: 1000,
				Length: -1}); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("-1 bytes: %v, %v", got, err)
			}
			if _, err := r.CheckFile("/none", usftp.CheckFile{}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of nothing: %v", err)
			}
		})
	}
	r := newRig(t, sftptest.Script{}, 0)
	if _, err := r.CheckFile("/f", usftp.CheckFile{}); r.HasCheckFile() ||
		!errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// TestOddHashes: answers to check-file that differ from the draft.
func TestOddHashes(t *testing.T) {
	sum := bytes.Repeat([]byte{7}, 16)
	withLength := func(n int) (b []byte) {
		for range n {
			b = append(append(b, 0, 0, 0, 16), sum...)
		}
		return b
	}
	for name, test := range map[string]struct {
		reply  wire.CheckFileReply
		blocks int // number of 1000-byte blocks requested, 0 for one hash of everything
		ok     bool
	}{
		"as the draft has it": {wire.CheckFileReply{Algorithm: "md5", Hashes: sum}, 0, true},
		"with the name": {wire.CheckFileReply{Name: wire.ExtCheckFile, Algorithm: "md5",
			Hashes: sum}, 0, true},
		"with a length": {wire.CheckFileReply{Algorithm: "md5", Hashes: withLength(1)},
			0, true},
		"with lengths": {wire.CheckFileReply{Algorithm: "md5", Hashes: withLength(3)},
			3, true},
		"with lengths, as long as five": {wire.CheckFileReply{Algorithm: "md5",
			Hashes: withLength(4)}, 4, true},
		"an algorithm of its own": {wire.CheckFileReply{Algorithm: "tiger", Hashes: sum}, 0, true},
		"blocks of its own": {wire.CheckFileReply{Algorithm: "tiger", Hashes: sum}, 3,
			false},
		"too few": {wire.CheckFileReply{Algorithm: "md5",
			Hashes: bytes.Repeat(sum, 2)}, 3, false},
		"too many": {wire.CheckFileReply{Algorithm: "md5",
			Hashes: bytes.Repeat(sum, 4)}, 3, false},
		"cut": {wire.CheckFileReply{Algorithm: "md5", Hashes: sum[:15]}, 0,
			false},
		"none":               {wire.CheckFileReply{Algorithm: "md5"}, 0, false},
		"none of an unknown": {wire.CheckFileReply{Algorithm: "tiger"}, 0, false},
		"two where one was asked": {wire.CheckFileReply{Algorithm: "md5",
			Hashes: bytes.Repeat(sum, 2)}, 0, false},
		"nothing at all, not even": {wire.CheckFileReply{}, 0, false},
	} {
		r := newRig(t, sftptest.Script{
			Extensions: []wire.ExtensionPair{{Name: wire.ExtCheckFileName}},
			Intercept: func(request sftptest.Request) []sftptest.Action {
				if request.Type != wire.TypeExtended {
					return nil
				}
				return []sftptest.Action{sftptest.ReplyBytes(string(test.reply.Append(nil,
					request.ID)))}
			},
		}, 0)
		what := usftp.CheckFile{}
		if test.blocks > 0 {
			what.BlockSize, what.Length = 1000, int64(1000*test.blocks)
		}
		got, err := r.CheckFile("/f", what)
		if (err == nil) != test.ok {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for i := 0; err == nil && i < max(1, test.blocks); i++ {
			if !bytes.Equal(got.Hashes[i], sum) {
				t.Errorf("%s: %x", name, got.Hashes[i])
			}
		}
	}
}
