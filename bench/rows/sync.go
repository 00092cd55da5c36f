package rows

import "time"

// Old is how an older version of a source, which $DST is before each run, differs from it.
type Old int

const (
	// None means that there is no older version.
	None Old = iota
	// Equal is the source itself, with its times.
	Equal
	// Places differs in a hundred places, which are 1 % of it.
	Places
	// Front lacks the first MiB.
	Front
)

// syncRows copy trees and files that the target has already, or nearly.
func syncRows() []Row {
	tree, ours := Contestant{"rsync -a", rsyncSSH + `"$SRC/" "host:$DST/"`, "rsync"},
		Contestant{"usftp sync", `"$USFTP" sync ` + usftpFlags + ` "$SRC" "$USER@$ADDRESS:$DST"`,
			UsftpProgram}
	unchanged := Row{
		Name: "sync-unchanged", Title: "sync of 200,000 files that are there already",
		Upload: true, Bytes: 100, Files: 200_000, Old: Equal, Cipher: fastCipher, Ours: ours.Name,
		Contestants: []Contestant{tree, ours}, Targets: []Target{{Against: tree.Name, Bound: 1}},
	}
	long := unchanged
	long.Name += "-50ms"
	long.Title += ", over 1 Gbit/s and 50 ms"
	long.Link = &Link{RTT: 50 * time.Millisecond, Rate: 1e9}
	all := []Row{unchanged, long}
	delta := at(Contestant{"usftp cp --delta", `"$USFTP" cp --delta ` + usftpFlags +
		` "$SRC" "$USER@$ADDRESS:$DST"`, UsftpProgram})
	for _, change := range []struct {
		name, title string
		old         Old
	}{{"places", "1 % changed in 100 places", Places}, {"front", "1 MiB inserted in front",
		Front}} {
		all = append(all, Row{
			Name: "delta-" + change.name, Title: "put of 1 GiB with " + change.title +
				", over 100 Mbit/s and 50 ms",
			Upload: true, Bytes: gibibyte, Old: change.old, InSeconds: true, Cipher: fastCipher,
			Ours:        delta.Name,
			Link:        &Link{RTT: 50 * time.Millisecond, Rate: 100e6},
			Apart:       map[string]Apart{delta.Name: {AtUsftp: true}},
			Contestants: []Contestant{rsync(true), delta},
			Targets: []Target{{Against: "rsync", Bound: 1},
				{Against: "rsync", Figure: Carried, Bound: 1.5}},
		})
	}
	return all
}
