package rows

import (
	"fmt"
	"strings"
	"time"
)

// manyRows are many small files to and from three hosts: where usftp serves, where it can be
// started beside sshd's own server, and where there is nothing but that.
func manyRows(upload bool) (all []Row) {
	name := verb(upload)
	tar, rsync, _, alone := treeContestants(upload)
	ours, helped := alone, alone
	ours.Name, helped.Name, alone.Name = "usftp at both ends", "usftp on the path",
		"usftp to sshd alone"
	alone.Command = strings.Replace(alone.Command, "cp -r", "cp -r --no-helper", 1)
	for _, trip := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond} {
		row := Row{
			Name:   "many-" + name,
			Title:  name + " of 10,000 files of 4 KiB on loopback, by what the host has",
			Upload: upload, Files: 10_000, Bytes: 4 << 10, Cipher: fastCipher, Ours: ours.Name,
			OnPath: true, Apart: map[string]Apart{ours.Name: {AtUsftp: true}},
			Contestants: []Contestant{tar, rsync, alone, helped, ours},
			Targets:     []Target{{Against: tar.Name, Bound: 1.3}},
		}
		if trip > 0 {
			row.Name += fmt.Sprintf("-%dms", trip.Milliseconds())
			row.Title = fmt.Sprintf(
				"%s of 10,000 files of 4 KiB over 1 Gbit/s and %d ms, by what the host has", name,
				trip.Milliseconds())
			row.Link = &Link{RTT: trip, Rate: 1e9}
		}
		all = append(all, row)
	}
	return all
}
