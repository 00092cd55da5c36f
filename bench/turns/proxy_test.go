package turns

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// TestCount has a client ask three times in turn, and the server answer the last time with the
// file.
func TestCount(t *testing.T) {
	const rtt = 20 * time.Millisecond
	file := bytes.Repeat([]byte{1}, 1000)
	for _, test := range []struct {
		name      string
		upload    bool
		questions int
		want      Count
	}{
		{"download", false, 3, Count{RoundTrips: 3, Connections: 1, Reached: true}},
		{"upload", true, 3, Count{RoundTrips: 3, Connections: 1, Reached: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			go answer(server, test.questions, test.upload, file)
			proxy, err := Listen(Config{Target: server.Addr().String(), RTT: rtt,
				Upload: test.upload, Mark: 500})
			if err != nil {
				t.Fatal(err)
			}
			if err := ask(proxy, test.questions, test.upload, file); err != nil {
				t.Error(err)
			}
			if got := proxy.Close(); got != test.want {
				t.Errorf("counted %+v, want %+v", got, test.want)
			}
		})
	}
}

func answer(listener net.Listener, questions int, upload bool, file []byte) {
	conn, err := listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	question := make([]byte, 1)
	for i := range questions {
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		if i == questions-1 && !upload {
			conn.Write(file)
			return
		}
		conn.Write(question)
	}
	io.Copy(io.Discard, conn)
}

func ask(proxy *Proxy, questions int, upload bool, file []byte) error {
	conn, err := net.Dial("tcp", proxy.listener.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	one := make([]byte, 1)
	for range questions {
		if _, err := conn.Write(one); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			return err
		}
	}
	if upload {
		if _, err := conn.Write(file); err != nil {
			return err
		}
		conn.(*net.TCPConn).CloseWrite()
	}
	_, err = io.Copy(io.Discard, conn)
	return err
}
