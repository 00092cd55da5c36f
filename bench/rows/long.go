package rows

import (
	"fmt"
	"time"
)

// Apart is the difference between one contestant of a row and the others.
type Apart struct {
	// Files is how many files it copies, from $PART instead of $SRC, where all would take it hours.
	// Its rate is that of these files.
	Files int
	// Beside is a command that serves it at the far end, on Port, until it has had its client.
	Beside string
	Port   int
	// NoFile says that it copies no file, so that there is none to compare.
	NoFile bool
	// Young says that its source is written to just before each run; that of all others is then an
	// hour old.
	Young bool
	// AtUsftp says that its server is usftp serve instead of sshd, with the same keys and paths.
	AtUsftp bool
}

// Total is how many bytes a contestant copies.
func (r Row) Total(contestant string) int64 {
	if r.Files == 0 {
		return r.Bytes
	}
	if part := r.Apart[contestant].Files; part > 0 {
		return r.Bytes * int64(part)
	}
	return r.Bytes * int64(r.Files)
}

const (
	iperfPort    = 5201
	iperfStreams = "iperf3 -P 8"
	rsyncSSH     = `rsync -a -e "ssh -F $CONFIG" `
)

func rsync(upload bool) Contestant {
	if upload {
		return Contestant{"rsync", rsyncSSH + `"$SRC" "host:$DST"`, "rsync"}
	}
	return Contestant{"rsync", rsyncSSH + `"host:$SRC" "$DST"`, "rsync"}
}

func iperf(upload bool, bytes int64) Contestant {
	command := fmt.Sprintf(`iperf3 -c "$ADDRESS" -p %d -P 8 -n %d >/dev/null`, iperfPort, bytes)
	if !upload {
		command += " -R"
	}
	return Contestant{iperfStreams, command, "iperf3"}
}

var iperfApart = map[string]Apart{iperfStreams: {Beside: fmt.Sprintf("iperf3 -s -1 -p %d",
	iperfPort), Port: iperfPort, NoFile: true}}

func pick(upload bool, get, put Contestant) Contestant {
	if upload {
		return put
	}
	return get
}

// longRows are single files over links made on this machine.
func longRows(upload bool) []Row {
	name := verb(upload)
	scp, sftp, ours := pick(upload, scpGet, scpPut), pick(upload, sftpGet, sftpPut), pick(upload,
		usftpGet, usftpPut)
	long := Row{
		Name: "long-" + name, Title: name +
			" of 500 MB over 1 Gbit/s and 100 ms", Upload: upload, Bytes: 500e6, Cipher: fastCipher,
		Ours: ours.Name, Link: &Link{RTT: 100 * time.Millisecond, Rate: 1e9}, Apart: iperfApart,
		Contestants: []Contestant{scp, sftp, rsync(upload), iperf(upload, 500e6), ours},
		Targets: []Target{{Against: scp.Name, Bound: 4.5}, {Against: "rsync", Bound: 4.5},
			{Against: iperfStreams, Bound: 0.95}},
	}
	all := []Row{long}
	for _, trip := range []int{10, 0} {
		all = append(all, Row{
			Name: fmt.Sprintf("long-%s-%dms", name,
				trip), Title: fmt.Sprintf("%s of 500 MB over 1 Gbit/s and %d ms", name, trip),
			Upload: upload, Bytes: 500e6, Cipher: fastCipher, Ours: ours.Name,
			Link: &Link{RTT: time.Duration(trip) * time.Millisecond, Rate: 1e9},
			Contestants: []Contestant{scp, rsync(upload),
				ours}, Targets: []Target{{Against: scp.Name, Bound: 1}},
		})
	}
	return append(all, Row{
		Name:   "capped-" + name,
		Title:  name + " of 500 MB over 2 Gbit/s and 2 ms, 300 Mbit/s for each connection",
		Upload: upload, Bytes: 500e6, Cipher: fastCipher, Ours: ours.Name, Apart: iperfApart,
		Link:        &Link{RTT: 2 * time.Millisecond, Rate: 2e9, Flow: 300e6},
		Contestants: []Contestant{scp, iperf(upload, 500e6), ours},
		Targets:     []Target{{Against: iperfStreams, Bound: 0.8}},
	}, Row{
		Name: "loss-" + name, Title: name +
			" of 500 MB over 1 Gbit/s and 100 ms, one packet of a thousand lost",
		Upload: upload, Bytes: 500e6, Cipher: fastCipher, Ours: ours.Name,
		Link: &Link{RTT: 100 * time.Millisecond, Rate: 1e9, Loss: 0.001},
		Contestants: []Contestant{scp, rsync(upload),
			ours}, Targets: []Target{{Against: scp.Name, Bound: 4}},
	})
}

// fastRows are single files over a link that is faster than SSH: the processors limit it.
func fastRows(upload bool) []Row {
	name := verb(upload)
	scp, ours := pick(upload, scpGet, scpPut), pick(upload, usftpGet, usftpPut)
	row := Row{
		Name: "fast-" + name, Title: name + " of 1 GiB over 10 Gbit/s and 1 ms, " + fastCipher,
		Upload: upload, Bytes: gibibyte, Cipher: fastCipher, Ours: ours.Name, Apart: iperfApart,
		Link:        &Link{RTT: time.Millisecond, Rate: 10e9},
		Contestants: []Contestant{scp, rsync(upload), iperf(upload, gibibyte), ours},
		Targets:     []Target{{Against: scp.Name, Bound: 1}},
	}
	users := row
	users.Name += "-default"
	users.Title = name + " of 1 GiB over 10 Gbit/s and 1 ms, each tool's default cipher"
	users.Cipher = ""
	return []Row{row, users}
}

// youngRows are files that were written to just before, as builds are: SFTP's times are whole
// seconds, so a copy has to see that they have not been written to again. The links are made on
// this machine, and so are the files.
func youngRows() []Row {
	old, young := usftpGet, usftpGet
	old.Name, old.Command = "usftp cp, old file", `touch -d "1 hour ago" "$SRC" && `+old.Command
	young.Command = `touch "$SRC" && ` + young.Command
	row := Row{
		Name:  "young-get",
		Title: "get of 500 MB that are just written over 1 Gbit/s and 100 ms", Bytes: 500e6,
		Cipher: fastCipher, Ours: young.Name, Contestants: []Contestant{old, young},
		Link: &Link{RTT: 100 * time.Millisecond, Rate: 1e9},
		// 1.2 s more of 6 to 7
		Targets: []Target{{Against: old.Name, Bound: 0.83}},
	}
	capped := row
	capped.Name = "capped-young-get"
	capped.Title = "get of 500 MB that are just written over 2 Gbit/s and 2 ms, " +
		"300 Mbit/s for each connection"
	capped.Link = &Link{RTT: 2 * time.Millisecond, Rate: 2e9, Flow: 300e6}
	return []Row{row, capped}
}

const atUsftp = " to usftp serve"

// at is a contestant whose server is usftp serve.
func at(c Contestant) Contestant {
	c.Name += atUsftp
	return c
}

// bothRow has usftp at both ends against OpenSSH at both ends.
func bothRow(upload bool) Row {
	scp, ours := pick(upload, scpGet, scpPut), at(pick(upload, usftpGet, usftpPut))
	return Row{
		Name: "both-" + verb(upload), Title: verb(upload) + " of 1 GiB with usftp at both ends",
		Upload: upload, Bytes: gibibyte, Cipher: fastCipher, Ours: ours.Name,
		Apart: map[string]Apart{ours.Name: {AtUsftp: true}}, Contestants: []Contestant{scp, ours},
		Targets: []Target{{Against: scp.Name, Bound: 2}},
	}
}

// windowRow shows the effect of the server's window on a client that is not ours.
func windowRow() Row {
	ours := at(scpPut) // usftp serve offers every cipher, sshd only this one
	ours.Command = `scp -q -o Ciphers=` + fastCipher + ` -F "$CONFIG" "$SRC" "host:$DST"`
	return Row{
		Name: "long-scp-put", Title: "put of 500 MB by scp over 1 Gbit/s and 100 ms", Upload: true,
		Bytes: 500e6, Cipher: fastCipher, Ours: ours.Name,
		Link:  &Link{RTT: 100 * time.Millisecond, Rate: 1e9},
		Apart: map[string]Apart{ours.Name: {AtUsftp: true}}, Contestants: []Contestant{scpPut,
			ours},
		Targets: []Target{{Against: scpPut.Name, Bound: 2}},
	}
}

// tinyRow is a file so small that the login is nearly all.
func tinyRow() Row {
	return Row{
		Name: "tiny-put", Title: "put of 1 KB over 1 Gbit/s and 100 ms", Upload: true, Bytes: 1000,
		Cipher: fastCipher, Ours: usftpPut.Name,
		Link:        &Link{RTT: 100 * time.Millisecond, Rate: 1e9},
		Contestants: []Contestant{sftpPut, scpPut, rsync(true), usftpPut},
		Targets:     []Target{{Against: scpPut.Name, Bound: 2}},
	}
}

// loginRow counts the round trips until the server has granted the subsystem. Its bar is 5.5 with
// TCP's handshake, which is not counted here.
func loginRow() Row {
	return Row{
		Name: "login", Title: "login until sshd has granted the SFTP subsystem", Kind: Login,
		Bytes: 1, Cipher: fastCipher, Ours: "usftp",
		Contestants: []Contestant{
			{"ssh", `ssh -F "$CONFIG" -s host sftp </dev/null`, "ssh"},
			{"sftp", `echo quit | sftp -q -F "$CONFIG" -b - host >/dev/null`, "sftp"},
			{"usftp", `"$BENCH" login`, BenchProgram},
		},
		Targets: []Target{{Figure: RoundTrips, Absolute: 4}},
	}
}

// mailRow is a file of the size that people send each other.
func mailRow() Row {
	return Row{
		Name: "mail-put", Title: "put of 5 MB over 100 Mbit/s and 140 ms", Upload: true, Bytes: 5e6,
		Cipher: fastCipher, Ours: usftpPut.Name,
		Link:        &Link{RTT: 140 * time.Millisecond, Rate: 100e6},
		Contestants: []Contestant{sftpPut, scpPut, rsync(true), usftpPut},
		Targets: []Target{{Against: sftpPut.Name, Bound: 1},
			{Against: sftpPut.Name, Bound: 1 / 0.85}},
	}
}

// treeContestants copy a directory to a name that does not exist.
func treeContestants(upload bool) (tar, rsync, scp, ours Contestant) {
	if upload {
		return Contestant{"tar | ssh tar",
				`tar -C "$SRC" -cf - . | ssh -F "$CONFIG" host "mkdir $DST && tar -C $DST -xf -"`,
				"tar"},
			Contestant{"rsync -a", rsyncSSH + `"$SRC/" "host:$DST"`, "rsync"},
			Contestant{"scp -r", `scp -q -r -F "$CONFIG" "$SRC" "host:$DST"`, "scp"},
			Contestant{"usftp cp -r", `"$USFTP" cp -r ` + usftpFlags +
				` "$SRC" "$USER@$ADDRESS:$DST"`, UsftpProgram}
	}
	return Contestant{"tar | ssh tar",
			`mkdir "$DST" && ssh -F "$CONFIG" host "tar -C $SRC -cf - ." | tar -C "$DST" -xf -`,
			"tar"},
		Contestant{"rsync -a", rsyncSSH + `"host:$SRC/" "$DST"`, "rsync"},
		Contestant{"scp -r", `scp -q -r -F "$CONFIG" "host:$SRC" "$DST"`, "scp"},
		Contestant{"usftp cp -r", `"$USFTP" cp -r ` + usftpFlags + ` "$USER@$ADDRESS:$SRC" "$DST"`,
			UsftpProgram}
}

// scpPart is how many files scp -r copies where all would take it a quarter of an hour.
const scpPart = 200

// treeRows are many small files.
func treeRows(upload bool) []Row {
	name := verb(upload)
	tar, rsync, scp, ours := treeContestants(upload)
	part := scp
	part.Name = fmt.Sprintf("scp -r of %d", scpPart)
	part.Command = `SRC="$PART"; ` + scp.Command
	againstRsync, againstTar := 1.0, 1/1.25
	if upload {
		againstRsync, againstTar = 1/1.2, 1.2
	}
	return []Row{
		{
			Name: "small-" + name + "-default", Title: name +
				" of 10,000 files of 4 KiB on loopback, each tool's default cipher",
			Upload: upload, Files: 10_000, Bytes: 4 << 10,
			Ours: ours.Name, Contestants: []Contestant{tar, rsync, ours},
			Targets: []Target{{Against: rsync.Name, Bound: againstRsync}},
		},
		{
			Name: "small-" + name, Title: name + " of 10,000 files of 4 KiB on loopback",
			Upload: upload, Files: 10_000, Bytes: 4 << 10,
			Cipher: fastCipher, Ours: ours.Name, Contestants: []Contestant{tar, rsync, scp, ours},
			Targets: []Target{{Against: rsync.Name, Bound: againstRsync},
				{Against: scp.Name, Bound: 4}},
		},
		{
			Name: "small-" + name + "-50ms", Title: name +
				" of 2,000 files of 4 KiB over 1 Gbit/s and 50 ms", Upload: upload,
			Files: 2000, Bytes: 4 << 10, Cipher: fastCipher, Ours: ours.Name,
			Link:        &Link{RTT: 50 * time.Millisecond, Rate: 1e9},
			Apart:       map[string]Apart{part.Name: {Files: scpPart}},
			Contestants: []Contestant{tar, rsync, part, ours},
			Targets: []Target{{Against: tar.Name, Bound: againstTar},
				{Against: part.Name, Bound: 100}},
		},
		{
			Name: "deep-" + name + "-50ms", Title: name +
				" of 10,000 files of 4 KiB in 2,000 directories over 1 Gbit/s and 50 ms", Upload: upload,
			Files: 10_000, Each: 5, Bytes: 4 << 10, Cipher: fastCipher, Ours: ours.Name,
			Link:        &Link{RTT: 50 * time.Millisecond, Rate: 1e9},
			Contestants: []Contestant{tar, rsync, ours},
			Targets:     []Target{{Against: rsync.Name, Bound: 1}},
		},
		{
			Name: "medium-" + name + "-50ms", Title: name +
				" of 300 files of 300 KB over 1 Gbit/s and 50 ms", Upload: upload,
			Files: 300, Each: 10, Bytes: 300_000, Cipher: fastCipher, Ours: ours.Name,
			Link:        &Link{RTT: 50 * time.Millisecond, Rate: 1e9},
			Contestants: []Contestant{tar, rsync, ours},
			Targets:     []Target{{Against: rsync.Name, Bound: 1}},
		},
		{
			Name: "memory-" + name + "-tree", Title: name +
				" of a tree of 200,000 files", Kind: Memory, Upload: upload,
			Files: 200_000, Bytes: 16, Cipher: fastCipher, Ours: ours.Name,
			Contestants: []Contestant{rsync, ours},
			// 32 MiB, and 16 in flight
			Targets: []Target{{Figure: PeakMemory, Absolute: 48 << 10}},
		},
		{
			Name: "memory-" + name + "-20GB", Title: name +
				" of a file of 20 GB", Kind: Memory, Upload: upload,
			Bytes: 20e9, Sparse: !upload /* whose holes would not travel */, Cipher: fastCipher,
			Ours: usftpGet.Name,
			Contestants: []Contestant{pick(upload, scpGet, scpPut),
				pick(upload, usftpGet, usftpPut)},
			Targets: []Target{{Figure: PeakMemory, Absolute: 32 << 10}},
		},
	}
}
