package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

func TestAppendIsByteForByte(t *testing.T) {
	for _, c := range allPackets() {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, c.packet)
			if got := c.message.Append(nil, testID); !bytes.Equal(got, want) {
				t.Errorf("got\n% x, want\n% x", got, want)
			}
			// The length must be put into the packet appended, not at the slice's beginning.
			got := c.message.Append([]byte("before"), testID)
			if !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Errorf("appended to other bytes: got\n% x, want these and\n% x", got, want)
			}
		})
	}
}

func TestParseIsByteForByte(t *testing.T) {
	for _, c := range allPackets() {
		t.Run(c.name, func(t *testing.T) {
			_, body := c.bytes(t)
			original := bytes.Clone(body)
			got := blank(c.message)
			if err := got.Parse(body); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.message) {
				t.Errorf("got\n%+v, want\n%+v", got, c.message)
			}
			if !bytes.Equal(body, original) {
				t.Errorf("Parse changed the body to % x", body)
			}
		})
	}
}

// TestParseForgetsTheLastMessage parses into messages that hold another of their type, as where one
// is used again and again.
func TestParseForgetsTheLastMessage(t *testing.T) {
	for _, c := range allPackets() {
		for _, last := range allPackets() {
			if reflect.TypeOf(last.message) != reflect.TypeOf(c.message) {
				continue
			}
			_, body := c.bytes(t)
			_, lastBody := last.bytes(t)
			got := blank(c.message)
			if err := errors.Join(got.Parse(lastBody), got.Parse(body)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.message) {
				t.Errorf("%s after %s: got\n%+v, want\n%+v", c.name, last.name, got, c.message)
			}
		}
	}
}

func TestParseIgnoresWhatFollows(t *testing.T) {
	for _, c := range allPackets() {
		switch c.message.(type) {
		case *initPacket, *initReplyPacket, *Status, *Extended, *ExtendedReply, *CheckFileReply,
			*Beneath:
			continue // these take all there is
		}
		t.Run(c.name, func(t *testing.T) {
			_, body := c.bytes(t)
			got := blank(c.message)
			if err := got.Parse(append(bytes.Clone(body), 0xff, 0xff, 0xff, 0xff,
				0xff)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.message) {
				t.Errorf("got\n%+v, want\n%+v", got, c.message)
			}
		})
	}
}

func TestLimitsRequest(t *testing.T) {
	if got, want := (Limits{}).Append(nil, testID), unhex(t, limitsPacket); !bytes.Equal(got,
		want) {
		t.Errorf("got\n% x, want\n% x", got, want)
	}
}

func TestStatusThatEndsEarly(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       Status
	}{
		{"code alone", `00 00 00 01`, Status{Code: EOF}},
		{"no language", `00 00 00 04 00 00 00 04 "oops"`, Status{Code: Failure, Message: "oops"}},
	} {
		got := Status{Code: OK, Message: "from the last reply", Language: "en"}
		if err := got.Parse(unhex(t, c.body)); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

func TestAppendHeaderLeavesOutTheData(t *testing.T) {
	data := []byte("hello")
	for _, size := range []int{0, 1, 4, MaxHandle} {
		write := Write{Handle: bytes.Repeat([]byte("h"), size), Offset: 7, Data: data}
		header := write.AppendHeader([]byte("before"), testID)
		if n := len(header) - len("before"); n != WriteHeaderSize(size) || n > WriteHeaderMax {
			t.Errorf("handle of %d bytes: header of %d, WriteHeaderSize says %d, WriteHeaderMax %d",
				size, n, WriteHeaderSize(size),
				WriteHeaderMax)
		}
		if got, want := append(header, data...), write.Append([]byte("before"),
			testID); !bytes.Equal(got, want) {
			t.Errorf("handle of %d bytes: header and data are\n% x, the packet is\n% x", size, got,
				want)
		}
	}
	if WriteHeaderMax != WriteHeaderSize(MaxHandle) {
		t.Errorf("WriteHeaderMax is %d, the longest header %d", WriteHeaderMax,
			WriteHeaderSize(MaxHandle))
	}

	reply := Data{data}
	header := reply.AppendHeader([]byte("before"), testID)
	if n := len(header) - len("before"); n != DataHeaderSize {
		t.Errorf("DATA: header of %d bytes, DataHeaderSize says %d", n, DataHeaderSize)
	}
	if got, want := append(header, data...), reply.Append([]byte("before"),
		testID); !bytes.Equal(got, want) {
		t.Errorf("DATA: header and data are\n% x, the packet is\n% x", got, want)
	}
}

func TestNamesOneAtATime(t *testing.T) {
	for _, c := range replyPackets() {
		names, ok := c.message.(*Names)
		if !ok {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			packet, body := c.bytes(t)
			b := BeginNames([]byte("before"), testID)
			for i := range names.Names {
				b = names.Names[i].Append(b)
			}
			b = FinishNames(b, len("before"), len(names.Names))
			if want := append([]byte("before"), packet...); !bytes.Equal(b, want) {
				t.Errorf("got\n% x, want\n% x", b, want)
			}

			r, err := NewNameReader(body)
			if err != nil {
				t.Fatal(err)
			}
			got := Name{Filename: "from the last packet",
				Attrs: Attrs{Extended: []ExtensionPair{{"a", "b"}}}}
			for i, want := range names.Names {
				if n := r.Remaining(); n != len(names.Names)-i {
					t.Errorf("before entry %d: %d remain of %d", i, n, len(names.Names))
				}
				if err := r.Next(&got); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("entry %d: got %+v, %v, want %+v", i, got, err, want)
				}
			}
			if n := r.Remaining(); n != 0 {
				t.Errorf("%d remain after the last entry", n)
			}
			if err := r.Next(&got); err != ErrShort {
				t.Errorf("the entry after the last: %v, want %v", err, ErrShort)
			}
			if n := r.Remaining(); n != 0 {
				t.Errorf("%d remain after an entry that there is not", n)
			}
		})
	}
}
