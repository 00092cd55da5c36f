package wire

import "testing"

// wantNoAllocation fails the test where f allocates.
func wantNoAllocation(t *testing.T, f func()) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector allocates on its own account")
	}
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 1024)
	for _, c := range allPackets() {
		t.Run(c.name, func(t *testing.T) {
			wantNoAllocation(t, func() { buf = c.message.Append(buf[:0], testID) })
		})
	}
	t.Run("limits", func(t *testing.T) {
		wantNoAllocation(t, func() { buf = Limits{}.Append(buf[:0], testID) })
	})
	t.Run("WRITE header", func(t *testing.T) {
		write := Write{Handle: []byte("h"), Data: make([]byte, DefaultMaxData)}
		wantNoAllocation(t, func() { buf = write.AppendHeader(buf[:0], testID) })
	})
	t.Run("DATA header", func(t *testing.T) {
		data := Data{make([]byte, DefaultMaxData)}
		wantNoAllocation(t, func() { buf = data.AppendHeader(buf[:0], testID) })
	})
}

// TestParseAllocatesNothing holds for what is parsed once for each piece of a file, from the
// packet's first byte on.
func TestParseAllocatesNothing(t *testing.T) {
	var (
		read   Read
		write  Write
		data   Data
		status Status
		handle Handle
		closed HandleRequest
	)
	for _, c := range []struct {
		name, packet string
		parse        func(body []byte) error
	}{
		{"READ", `05 01 02 03 04 00 00 00 01 "h" 00 00 00 00 00 00 00 00 00 00 80 00`, read.Parse},
		{"WRITE", `06 01 02 03 04 00 00 00 01 "h" 00 00 00 00 00 00 00 00 00 00 00 05 "hello"`,
			write.Parse},
		{"DATA", `67 01 02 03 04 00 00 00 05 "hello"`, data.Parse},
		{"STATUS of a code alone", `65 01 02 03 04 00 00 00 01`, status.Parse},
		{"STATUS with empty strings", `65 01 02 03 04 00 00 00 01 00 00 00 00 00 00 00 00`,
			status.Parse},
		{"HANDLE", `66 01 02 03 04 00 00 00 04 "abcd"`, handle.Parse},
		{"CLOSE", `04 01 02 03 04 00 00 00 04 "abcd"`, closed.Parse},
	} {
		t.Run(c.name, func(t *testing.T) {
			packet := unhex(t, c.packet)
			wantNoAllocation(t, func() {
				_, _, body, err := ParseHeader(packet)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.parse(body); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
