package bench

import (
	"fmt"

	"github.com/usftp/usftp/bench/library"
)

// sweep is every combination of pkg/sftp's settings that could be its best.
func sweep() []library.Library {
	var all []library.Library
	for _, packet := range []int{32 << 10, 64 << 10, 128 << 10, 261120} {
		for _, requests := range []int{8, 16, 64, 128} {
			for _, concurrent := range []bool{false, true} {
				s := library.PkgSFTP{Packet: packet, Requests: requests, ConcurrentWrites: concurrent}
				name := fmt.Sprintf("packet=%dKiB/requests=%d/concurrentwrites=%t", packet>>10, requests, concurrent)
				all = append(all, s.Library(name))
			}
		}
	}
	return all
}
