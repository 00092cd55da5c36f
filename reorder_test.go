package usftp_test

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A server that keeps the first READ's answer to itself, and answers all others, is not asked for
// the whole file, which would wait in memory.
func TestReorderIsBounded(t *testing.T) {
	data := make([]byte, 96<<20)
	for i := range data {
		data[i] = byte(i>>8 ^ i)
	}
	for _, ahead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			gate := new(sftptest.Gate)
			client, server := scripted(t, sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
				if r.Type == wire.TypeRead && r.Offset == 0 {
					return []sftptest.Action{sftptest.Hold(gate)}
				}
				return nil
			}}, sftptest.LinkConfig{ToServer: time.Millisecond, ToClient: time.Millisecond})
			server.Files.WriteFile("/file", data)
			f, err := client.Open("/file")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var got bytes.Buffer
			ended := make(chan error)
			go func() {
				var err error
				if ahead {
					r := f.ReadRange(0, -1)
					_, err = io.Copy(&got, r)
					r.Close()
				} else {
					_, err = f.WriteTo(&got)
				}
				ended <- err
			}()
			time.Sleep(10 * time.Second) // of a fake clock: nothing more comes
			synctest.Wait()
			if asked := len(server.Requests(wire.TypeRead)) * 255 << 10; asked > 40<<20 {
				t.Errorf("%d MiB were asked for before the first answer", asked>>20)
			}
			gate.Open()
			if err := <-ended; err != nil || !bytes.Equal(got.Bytes(), data) {
				t.Errorf("%d bytes, %v", got.Len(), err)
			}
		})
	}
}

// openOver opens /file over several clients, each at the end of a link of 100 ms with a window, 0
// for none; all but the first join the stripes.
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

// A range is read in order over several handles, in a fraction of the time, also where one of them
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
