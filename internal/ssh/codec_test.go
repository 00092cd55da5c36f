package ssh

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestMPInt uses the non-negative examples of RFC 4251, section 5.
func TestMPInt(t *testing.T) {
	for number, want := range map[string]string{
		"00": "00000000", "09a378f9b2e332a7": "0000000809a378f9b2e332a7", "80": "000000020080",
		"0000ff": "0000000200ff", "01": "0000000101",
	} {
		p, _ := hex.DecodeString(number)
		w, _ := hex.DecodeString(want)
		if got := appendMPInt(nil, p); !bytes.Equal(got, w) {
			t.Errorf("%s is encoded as %x", number, got)
		}
	}
}

// TestNameList uses the examples of RFC 4251, section 5.
func TestNameList(t *testing.T) {
	for want, names := range map[string][]string{
		"00000000": nil, "000000047a6c6962": {"zlib"},
		"000000097a6c69622c6e6f6e65": {"zlib", "none"},
	} {
		w, _ := hex.DecodeString(want)
		if got := appendNames(nil, names); !bytes.Equal(got, w) {
			t.Errorf("%q is encoded as %x", names, got)
		}
	}
}

// TestPadding checks RFC 4253, section 6, for every length and every packet format.
func TestPadding(t *testing.T) {
	for _, c := range cipherSpecs {
		for _, m := range macSpecs {
			_, k := benchKeys(c.name)
			if !c.aead {
				k.spec, k.mac = &m, make([]byte, m.key)
			}
			s, err := c.newCipher(k)
			if err != nil {
				t.Fatal(err)
			}
			f := s.form()
			for n := 1; n < 300; n++ {
				pad := f.padding(n)
				if pad < minPadding || pad > 255 {
					t.Fatalf("%s: %d bytes get %d of padding", c.name, n, pad)
				}
				size, err := f.packetSize(uint32(1 + n + pad))
				if err != nil || size != lengthSize+1+n+pad+f.tag {
					t.Fatalf("%s: %d bytes make a packet that is refused: %v", c.name, n, err)
				}
			}
		}
	}
}

// TestPacketSizes checks that impossible lengths are refused.
func TestPacketSizes(t *testing.T) {
	for _, c := range []struct {
		length uint32
		form   form
		fails  bool
	}{
		{0, plain{}.form(), true}, {1, plain{}.form(), true}, {4, plain{}.form(), true},
		{5, plain{}.form(), true}, {12, plain{}.form(), false}, {13, plain{}.form(), true},
		{0xffffffff, plain{}.form(), true}, {0xfffffffc, plain{}.form(), true},
		{maxPacketLength + 4, plain{}.form(), true}, {maxPacketLength - 4, plain{}.form(), false},
		{16, (&gcm{}).form(), false}, {12, (&gcm{}).form(), true}, {0, (&gcm{}).form(), true},
	} {
		if _, err := c.form.packetSize(c.length); (err != nil) != c.fails {
			t.Errorf("a length of %d: %v", c.length, err)
		}
	}
}
