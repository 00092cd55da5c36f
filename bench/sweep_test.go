package bench

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/internal/testenv"
)

// sweep is every combination of pkg/sftp's settings that could be its best.
func sweep() []library.Library {
	var all []library.Library
	for _, packet := range []int{32 << 10, 64 << 10, 128 << 10, 261120} {
		for _, requests := range []int{8, 16, 64, 128} {
			s := library.PkgSFTP{Packet: packet, Requests: requests, ConcurrentWrites: true}
			all = append(all, s.Library(fmt.Sprintf("packet=%dKiB/requests=%d", packet>>10,
				requests)))
		}
	}
	one := library.PkgSFTP{Packet: 261120, Requests: 64}
	return append(all, one.Library("packet=255KiB/requests=64/concurrentwrites=false"),
		library.Default.Library("default"))
}

// BenchmarkSweepPipe is the search for pkg/sftp's best settings over pipes.
func BenchmarkSweepPipe(b *testing.B) {
	path, content := randomFile(b, transferSize)
	for _, lib := range sweep() {
		b.Run("op=WriteTo/"+lib.Name, func(b *testing.B) {
			benchmarkDown(b, lib, pipes.LargePipe, 0, path, len(content))
		})
		b.Run("op=ReadFrom/"+lib.Name, func(b *testing.B) {
			benchmarkUp(b, lib, pipes.LargePipe, 0, content, len(content))
		})
	}
}

// BenchmarkSweepSSH is the search for pkg/sftp's best settings over x/crypto/ssh, with the cheapest
// cipher.
func BenchmarkSweepSSH(b *testing.B) {
	const size = 64 << 20
	server, err := sshd.Start(sshd.Config{Cipher: "aes128-gcm@openssh.com"})
	if errors.Is(err, sshd.ErrNoServer) {
		testenv.Unavailable(b, err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	path, content := randomFile(b, size)
	target := filepath.Join(memoryDir(b), "target")
	for _, lib := range sweep() {
		run := func(op string, transfer func(library.Client) error) {
			b.Run("op="+op+"/"+lib.Name, func(b *testing.B) {
				conn, err := server.Dial()
				if err != nil {
					b.Fatal(err)
				}
				defer conn.Close()
				client, err := lib.OverSSH(conn)
				if err != nil {
					b.Fatal(err)
				}
				defer client.Close()
				measure(b, size, func() error { return transfer(client) })
			})
		}
		run("WriteTo", func(c library.Client) error { return download(c, path, size) })
		run("ReadFrom", func(c library.Client) error {
			return upload(c, target,
				&pieces{content, size})
		})
	}
}
