package sftptest_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// What is written at one end arrives at the other, later.
func ExampleNewLink() {
	client, server := sftptest.NewLink(sftptest.LinkConfig{ToServer: 5 * time.Millisecond})
	start := time.Now()
	client.Write([]byte("hello"))
	client.CloseWrite()
	text, err := io.ReadAll(server)
	fmt.Println(string(text), err, time.Since(start) >= 5*time.Millisecond)
	// Output: hello <nil> true
}

// A server with one quirk, and a fault for one file. It records all requests.
func ExampleNewScripted() {
	server := sftptest.NewScripted(sftptest.Script{
		ShortReads: 4,
		Faults: []sftptest.Fault{
			{On: wire.TypeStat, Path: "/secret",
				Do: sftptest.Refuse(wire.PermissionDenied, "not for you")},
		},
	})
	defer server.Close()
	server.Files.WriteFile("/motd", []byte("hello, world"))

	client := sftptest.NewRaw(server.Dial(sftptest.LinkConfig{}))
	client.Init()
	fmt.Println(client.Ask(wire.PathRequest{Type: wire.TypeStat, Path: "/secret"}))
	fmt.Println(client.Ask(wire.Open{Path: "/motd", Flags: wire.OpenRead}))
	for _, request := range server.Requests(wire.TypeStat, wire.TypeOpen) {
		fmt.Println("asked:", request)
	}
	// Output:
	// STATUS id=1 permission denied <nil>
	// HANDLE id=2, 8 bytes <nil>
	// asked: STAT id=1 "/secret"
	// asked: OPEN id=2 "/motd" flags=0x1
}

// A server whose first DATA is truncated, as a Go literal that a failing test can print.
func ExampleFault() {
	fmt.Println(sftptest.Fault{On: wire.TypeRead, Times: 1, Do: sftptest.Truncate(10)})
	// Output: sftptest.Fault{On: wire.TypeRead, Times: 1, Do: sftptest.Truncate(10)}
}

// Replies wait at a gate until the test releases them: here the second overtakes the first.
func ExampleGate() {
	var gate sftptest.Gate
	server := sftptest.NewScripted(sftptest.Script{Faults: []sftptest.Fault{{On: wire.TypeStat,
		Do: sftptest.Hold(&gate)}}})
	defer server.Close()
	client := sftptest.NewRaw(server.Dial(sftptest.LinkConfig{}))
	client.Init()
	stat := wire.PathRequest{Type: wire.TypeStat, Path: "/"}
	client.Send(stat.Append(nil, 1), stat.Append(nil, 2))
	gate.Wait(2)
	gate.ReleaseNewest(2)
	fmt.Println(client.Receive())
	fmt.Println(client.Receive())
	// Output:
	// ATTRS id=2, 32 bytes <nil>
	// ATTRS id=1, 32 bytes <nil>
}

// Two requests sent together cost one round trip; one after the other they cost two.
func ExampleNewCounter() {
	server := sftptest.NewScripted(sftptest.Script{})
	defer server.Close()
	counter := sftptest.NewCounter(server.Dial(sftptest.LinkConfig{}))
	client := sftptest.NewRaw(counter)
	client.Init()

	counter.Reset()
	stat := wire.PathRequest{Type: wire.TypeStat, Path: "/"}
	client.Send(stat.Append(nil, 1), stat.Append(nil, 2))
	client.Receive()
	client.Receive()
	fmt.Println("together:", counter.Counts().RoundTrips)

	counter.Reset()
	client.Ask(stat)
	client.Ask(stat)
	fmt.Println("one after the other:", counter.Counts().RoundTrips)
	// Output:
	// together: 1
	// one after the other: 2
}

// The conformance cases, run against the scripted server.
func ExampleConformance() {
	test := func(t *testing.T) {
		server := sftptest.NewServer(t, sftptest.Script{})
		server.Files.Mkdir("/cases")
		sftptest.Conformance{
			Dial: func(testing.TB) io.ReadWriteCloser { return server.Dial(sftptest.LinkConfig{}) },
			Dir:  "/cases",
		}.Run(t)
	}
	_ = test // go test runs it
}
