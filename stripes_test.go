package usftp_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
)

// openOver opens /file over several clients, each over a link of 100 ms with a window (0 for none).
// All but the first join the stripes.
func openOver(t *testing.T, server *sftptest.Scripted, clients, window int,
	options ...usftp.ClientOption) (stripes private.Stripes, ends []*sftptest.End) {
	t.Helper()
	for i := range clients {
		end := server.Dial(sftptest.LinkConfig{ToServer: 50 * time.Millisecond,
			ToClient: 50 * time.Millisecond, Window: window})
		c, err := usftp.NewClientPipe(end, end, options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		f, err := c.Open("/file")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if i == 0 {
			stripes = private.NewStripes(f)
		} else if !stripes.Join(f) {
			t.Fatal("it may not join")
		}
		ends = append(ends, end)
	}
	return stripes, ends
}

// A range is read in order over several handles, in a fraction of the time, even if one of them
// ends halfway.
func TestReadRangeOver(t *testing.T) {
	const window = 256 << 10
	data := make([]byte, 9<<20+12345)
	for i := range data {
		data[i] = byte(i>>8 ^ i)
	}
	took := map[int]time.Duration{}
	for _, lanes := range []int{1, 4} {
		for _, cut := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				server := sftptest.NewServer(t, sftptest.Script{})
				server.Files.WriteFile("/file", data)
				stripes, ends := openOver(t, server, lanes, window, usftp.WithChannelWindow(window))
				if cut && lanes > 2 {
					time.AfterFunc(300*time.Millisecond, func() { ends[2].Cut(nil) })
				}
				began := time.Now()
				r := stripes.ReadRange(1000, -1)
				got, err := io.ReadAll(r)
				r.Close()
				took[lanes] = time.Since(began)
				if err != nil || !bytes.Equal(got, data[1000:]) {
					t.Errorf("%d lanes, cut %v: %d bytes, %v", lanes, cut, len(got), err)
				}
			})
		}
	}
	if took[4] > took[1]/3 {
		t.Errorf("%v over one handle, %v over four", took[1], took[4])
	}
}

// One file travels over several connections, in a fraction of the time, and arrives complete even
// if one of them ends halfway.
func TestStripes(t *testing.T) {
	const window = 256 << 10
	data := make([]byte, 9<<20+12345)
	for i := range data {
		data[i] = byte(i>>8 ^ i)
	}
	for _, lanes := range []int{1, 4} {
		for _, cut := range []bool{false, true} {
			var took [2]time.Duration
			synctest.Test(t, func(t *testing.T) {
				server := sftptest.NewServer(t, sftptest.Script{})
				server.Files.WriteFile("/down", data)
				server.Files.WriteFile("/up", nil)
				var clients []*usftp.Client
				var ends []*sftptest.End
				for range lanes {
					end := server.Dial(sftptest.LinkConfig{ToServer: 50 * time.Millisecond,
						ToClient: 50 * time.Millisecond, Window: window})
					c := clientOf(t, end, usftp.WithChannelWindow(window))
					clients, ends = append(clients, c), append(ends, end)
				}
				local := filepath.Join(t.TempDir(), "file")
				for way, name := range []string{"/down", "/up"} {
					var stripes private.Stripes
					flag := os.O_RDONLY
					if way == 1 {
						flag = os.O_WRONLY
					}
					var first *usftp.File
					for i, c := range clients {
						f, err := c.OpenFile(name, flag, 0)
						if err != nil {
							t.Fatal(err)
						}
						defer f.Close()
						if i == 0 {
							first, stripes = f, private.NewStripes(f)
						} else if !stripes.Join(f) {
							t.Fatal("it may not join")
						}
					}
					if cut && way == 1 && lanes > 1 {
						time.AfterFunc(500*time.Millisecond, func() { ends[lanes-1].Cut(nil) })
					}
					began := time.Now()
					var n int64
					var err error
					if way == 0 {
						out, createErr := os.Create(local)
						if createErr != nil {
							t.Fatal(createErr)
						}
						n, err = stripes.WriteToAt(out)
						out.Close()
					} else {
						n, err = stripes.ReadFromAt(bytes.NewReader(data))
					}
					took[way] = time.Since(began)
					if err != nil || n != int64(len(data)) {
						t.Fatalf("%s over %d lanes: %d bytes, %v", name, lanes, n, err)
					}
					if stripes.Moved() < n || stripes.Joined() != lanes-1 || stripes.Join(first) {
						t.Errorf("%d moved, %d joined", stripes.Moved(), stripes.Joined())
					}
				}
				got, _ := os.ReadFile(local)
				if !bytes.Equal(got, data) {
					t.Error("what came down differs")
				}
				if got, _ := server.Files.ReadFile("/up"); !bytes.Equal(got, data) {
					t.Error("what went up differs")
				}
			})
			// A window per round trip for each lane.
			if one := time.Duration(len(data)/window) * 100 * time.Millisecond; !cut &&
				took[1] > one/time.Duration(lanes)*3/2 {
				t.Errorf("%d lanes took %v, of one's %v", lanes, took, one)
			}
		}
	}
}
