package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"
)

func TestTruncatedAtEachByte(t *testing.T) {
	for _, c := range allPackets() {
		t.Run(c.name, func(t *testing.T) {
			_, body := c.bytes(t)
			for n := range body {
				// The capacity ends with the length, so that reading on would panic.
				err := blank(c.message).Parse(slices.Clip(body[:n]))
				complete := n >= len(body)-c.opaque || slices.Contains(c.mayEndAt, n)
				switch {
				case complete && err != nil:
					t.Errorf("the first %d of %d bytes: %v, want no error", n, len(body), err)
				case !complete && !errors.Is(err, ErrShort):
					t.Errorf("the first %d of %d bytes: %v, want %v", n, len(body), err, ErrShort)
				}
			}
		})
	}
}

func TestTruncatedHeader(t *testing.T) {
	for _, c := range []struct {
		packet string
		want   error
	}{
		{``, ErrShort},
		{`65`, ErrShort},
		{`65 01 02 03`, ErrShort},
		{`65 01 02 03 04`, nil},
		{`ff 01 02 03`, ErrShort}, // a type that nobody defined
		// INIT and VERSION have no id; what is missing here is missing in the body
		{`01`, nil},
		{`02`, nil},
	} {
		if _, _, _, err := ParseHeader(unhex(t, c.packet)); !errors.Is(err, c.want) {
			t.Errorf("% x: %v, want %v", unhex(t, c.packet), err, c.want)
		}
	}
}

// TestLyingLengthsAndCounts writes the largest number, and some others, over every four bytes of
// every packet, so over each of its lengths and counts too. Nothing may panic, and no memory be
// taken on the number's word.
func TestLyingLengthsAndCounts(t *testing.T) {
	lies := []uint32{0xffffffff, 0x80000000, 0x7fffffff, 0x20000000, 0x15555556}
	for _, c := range allPackets() {
		t.Run(c.name, func(t *testing.T) {
			_, body := c.bytes(t)
			for i := 0; i+4 <= len(body); i++ {
				for _, lie := range lies {
					hostile := bytes.Clone(body)
					binary.BigEndian.PutUint32(hostile[i:], lie)
					// An error is right nearly everywhere, but a number written over a name or an
					// offset is as good as another.
					taken := allocated(func() { _ = blank(c.message).Parse(hostile) })
					if limit := uint64(2048 + 40*len(body)); taken > limit {
						t.Errorf("%#x at %d: parsing %d bytes took %d bytes of memory, more than %d", lie, i, len(body), taken, limit)
					}
				}
			}
		})
	}
}

// allocated returns the bytes that f allocates. The runtime counts for the whole process, so the
// least of three runs is taken where the first has a lot.
func allocated(f func()) uint64 {
	least := uint64(math.MaxUint64)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		if least = min(least, after.TotalAlloc-before.TotalAlloc); least < 1024 {
			break
		}
	}
	return least
}

func TestLengthsBeyondTheEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		message message
		body    string
	}{
		{"path, one byte too long", &PathRequest{}, `00 00 00 03 "/a"`},
		{"path of 4 GiB", &PathRequest{}, `ff ff ff ff "/a"`},
		{"handle, one byte too long", &Handle{}, `00 00 00 05 "abcd"`},
		{"handle of 4 GiB", &Handle{}, `ff ff ff ff "abcd"`},
		{"data, one byte too long", &Data{}, `00 00 00 06 "hello"`},
		{"data of 4 GiB", &Data{}, `ff ff ff ff "hello"`},
		{"WRITE's handle that swallows the rest", &Write{},
			`00 00 00 12 "h" 00 00 00 00 00 00 00 00 00 00 00 05 "hello"`},
		{"WRITE's data, one byte too long", &Write{},
			`00 00 00 01 "h" 00 00 00 00 00 00 00 00 00 00 00 06 "hello"`},
		{"second path, one byte too long", &Rename{}, `00 00 00 01 "a" 00 00 00 02 "b"`},
		{"status message, one byte too long", &Status{}, `00 00 00 04 00 00 00 05 "oops"`},
		{"status language, one byte too long", &Status{},
			`00 00 00 04 00 00 00 04 "oops" 00 00 00 03 "en"`},
		{"extension's name", &Extended{}, `00 00 00 04 "x@y"`},
		{"VERSION's last string", &initReplyPacket{},
			`00 00 00 03 00 00 00 03 "x@y" 00 00 00 02 "1"`},
		{"VERSION with a name and no data", &initReplyPacket{}, `00 00 00 03 00 00 00 03 "x@y"`},
		{"NAME, one entry too many", &Names{},
			`00 00 00 02 00 00 00 01 "a" 00 00 00 00 00 00 00 00`},
		{"NAME, one entry too many for what follows", &Names{},
			`00 00 00 02 00 00 00 00 00 00 00 00 00 00 00 00`},
		{"NAME of 2^32-1 entries", &Names{}, `ff ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00`},
		{"ATTRS of 2^32-1 pairs", &AttrsReply{}, `80 00 00 00 ff ff ff ff 00 00 00 00 00 00 00 00`},
		{"ATTRS, one pair too many", &AttrsReply{},
			`80 00 00 00 00 00 00 02 00 00 00 00 00 00 00 00`},
		{"ATTRS, one pair too many for what follows", &AttrsReply{},
			`80 00 00 00 00 00 00 02 00 00 00 08 "12345678" 00 00 00 00`},
		{"uids of 4 GiB", &UsersGroupsByID{}, `ff ff ff ff 00 00 00 00 00 00 00 00`},
		{"uids that end within one", &UsersGroupsByID{},
			`00 00 00 06 00 00 00 00 00 00 00 00 00 00`},
		{"gids that end within one", &UsersGroupsByID{}, `00 00 00 00 00 00 00 03 00 00 00`},
		{"user's name beyond the list of users", &UsersGroupsReply{},
			`00 00 00 05 00 00 00 02 "a" 00 00 00 00`},
		{"group's name beyond the list of groups", &UsersGroupsReply{},
			`00 00 00 00 00 00 00 05 00 00 00 02 "a" "b"`},
		{"list of users that ends within a length", &UsersGroupsReply{},
			`00 00 00 03 00 00 00 00 00 00 00`},
		{"check-file reply of the extension's name alone", &CheckFileReply{},
			`00 00 00 0a "check-file"`},
		{"request beneath that ends within the directory", &Beneath{}, `00 00 00`},
		{"request beneath without a type", &Beneath{}, `00 00 00 01`},
		{"list of chunks of 4 GiB", &ChunksReply{}, `00 00 00 03 "md5" 00 ff ff ff ff`},
		{"list of chunks that ends within one", &ChunksReply{},
			`00 00 00 03 "md5" 00 00 00 00 13 00 00 00 01 "123456789012345"`},
	} {
		if err := c.message.Parse(unhex(t, c.body)); !errors.Is(err, ErrShort) {
			t.Errorf("%s: %v, want %v", c.name, err, ErrShort)
		}
	}
}

func TestNameReaderRefusesLyingCount(t *testing.T) {
	r, err := NewNameReader(unhex(t, `ff ff ff ff 00 00 00 00 00 00 00 00 00 00 00 00`))
	if err != ErrShort {
		t.Errorf("count of 2^32-1: %v, want %v", err, ErrShort)
	}
	if err := r.Next(new(Name)); err != ErrShort {
		t.Errorf("entry of a reader that failed: %v, want %v", err, ErrShort)
	}
}

func TestHandleLongerThanAllowed(t *testing.T) {
	for size, want := range map[int]error{
		MaxHandle - 1: nil, MaxHandle: nil, MaxHandle + 1: ErrHandleTooLong, 4096: ErrHandleTooLong,
	} {
		body := appendBytes(nil, bytes.Repeat([]byte("h"), size))
		var got Handle
		if err := got.Parse(body); err != want {
			t.Errorf("handle of %d bytes: %v, want %v", size, err, want)
		}
		if want == nil && len(got.Handle) != size || want != nil && got.Handle != nil {
			t.Errorf("handle of %d bytes: got %d of them", size, len(got.Handle))
		}
	}
}

func TestParsedSlicesCannotGrowIntoTheBody(t *testing.T) {
	body := unhex(t, `00 00 00 01 "h" 00 00 00 00 00 00 00 00 00 00 00 05 "hello"`)
	original := bytes.Clone(body)
	var write Write
	if err := write.Parse(body); err != nil {
		t.Fatal(err)
	}
	_ = append(write.Handle, "overwritten"...)
	if !bytes.Equal(body, original) {
		t.Errorf("appending to the handle changed the body to % x", body)
	}
}

func TestReaderErrorSticks(t *testing.T) {
	r := NewReader([]byte{1, 2, 3, 4, 5})
	if got := r.Byte(); got != 1 || r.Len() != 4 || r.Err() != nil {
		t.Fatalf("first byte %d, %d left, error %v", got, r.Len(), r.Err())
	}
	if got := r.Uint64(); got != 0 || r.Err() != ErrShort {
		t.Errorf("eight bytes of four: %d, error %v", got, r.Err())
	}
	// The four bytes are there, but whoever did not look at the error must not get a field from the
	// wrong place.
	if a, b, c, d := r.Byte(), r.Uint32(), r.Bytes(), r.String(); a != 0 || b != 0 || c != nil ||
		d != "" || r.Err() != ErrShort {
		t.Errorf("after an error: %d, %d, %q, %q, error %v", a, b, c, d, r.Err())
	}
	if r.Len() != 0 || r.Rest() != nil {
		t.Errorf("after an error: %d bytes left, %q", r.Len(), r.Rest())
	}
}
