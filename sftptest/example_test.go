package sftptest_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A client asks a server behind a long link; what it costs is asserted on the fake clock, and in round trips.
func ExampleLinkConfig() {
	synctest.Test(&testing.T{}, func(t *testing.T) {
		server := sftptest.NewScripted(sftptest.Script{})
		defer server.Close()
		server.Files.WriteFile("/motd", []byte("hello"))

		counter := sftptest.NewCounter(server.Dial(sftptest.LinkConfig{
			ToServer: 75 * time.Millisecond,
			ToClient: 75 * time.Millisecond,
		}))
		client := sftptest.NewRaw(counter)
		start := time.Now()
		client.Init()
		client.Ask(wire.PathRequest{Type: wire.TypeStat, Path: "/motd"})
		client.Close()
		fmt.Println(time.Since(start), counter.Counts().RoundTrips)
	})
	// Output: 300ms 2
}
