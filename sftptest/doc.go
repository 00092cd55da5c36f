// Package sftptest helps test SFTP clients and servers: it has links with a delay, counters of
// bytes and round trips, and a server that follows a script.
//
//   - [NewLink] joins two ends by a link that delays, limits its rate, splits its data,
//     falls silent or breaks.
//   - [NewCounter] counts a stream's traffic: bytes, calls, packets by type, round trips.
//   - [NewScripted] is a server on real wire bytes over a file system in memory. By default it
//     behaves like OpenSSH's sftp-server; a [Script] changes one thing at a time, a [Fault] spoils
//     chosen replies, and all requests are recorded. [NewServer] is the same for the length of a
//     test.
//
// All of it works inside testing/synctest, so that a test over a link with a delay of 150 ms takes
// no time and can assert on the clock exactly:
//
//	synctest.Test(t, func(t *testing.T) {
//		server := sftptest.NewServer(t, sftptest.Script{})
//		const oneWay = 75 * time.Millisecond
//		link := sftptest.LinkConfig{ToServer: oneWay, ToClient: oneWay}
//		counter := sftptest.NewCounter(server.Dial(link))
//		start := time.Now()
//		// ... a client over counter does its work ...
//		if counter.Counts().RoundTrips != 2 || time.Since(start) != 2*link.RTT() {
//			t.Errorf(...)
//		}
//	})
//
// The pieces print themselves as Go literals, so that a failing test with random faults can say how
// to repeat it.
package sftptest
