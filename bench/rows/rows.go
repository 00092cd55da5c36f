// Package rows is the table of what is measured over SSH: each row is one job that several
// contestants do, and what usftp is to reach in it.
package rows

import (
	"fmt"
	"time"
)

// Kind is the kind of a row.
type Kind int

const (
	// Rate compares the time that whole commands take.
	Rate Kind = iota
	// Memory compares the peak memory of their processes.
	Memory
	// FirstByte compares the round trips before a file's first bytes.
	FirstByte
	// Login compares the round trips of commands that do nothing but log in.
	Login
)

// Row is one job.
type Row struct {
	Name  string
	Title string
	Kind  Kind
	// Upload is the direction: from $SRC here to $DST there, or from $SRC there to $DST here.
	Upload bool
	// Bytes is the size of the file; Sparse makes it a hole, which costs no memory at its source.
	Bytes  int64
	Sparse bool
	// Files, where it is not 0, makes $SRC and $DST directories with so many files of that size, a
	// hundred in each directory, or Each.
	Files, Each int
	// Old, where it is not None, makes $DST an older version of $SRC before each run.
	Old Old
	// InSeconds says that the job is not to move Bytes, so that a rate would mean nothing.
	InSeconds bool
	// Cipher is the only cipher that the server offers; empty leaves each contestant its default one.
	Cipher string
	// OnPath says that the server's users have usftp on their path.
	OnPath bool
	// Link is the long link that the row runs over; nil is the loopback.
	Link *Link
	// Ours is the contestant to which the targets apply, in a build and on a machine that has it.
	Ours        string
	Contestants []Contestant
	// TellsOwn says that the commands measure their job themselves, without what leads to it, and
	// write the seconds to $TOOK.
	TellsOwn bool
	// Apart is by contestant.
	Apart   map[string]Apart
	Targets []Target
}

// Link is a long link's description.
type Link struct {
	RTT  time.Duration
	Rate float64
	Flow float64 // of one connection; 0 is without limit
	Loss float64
}

// Contestant is one command. The shell runs it with these variables: $SRC and $DST, the files;
// $CONFIG, an ssh_config that names the server "host"; $ADDRESS, $PORT, $USER, $KEY and
// $KNOWN_HOSTS, for tools that want these one by one; $BENCH and $USFTP, the programs built from
// this repository; $TOOK, a file for the seconds that a row's commands tell themselves.
type Contestant struct {
	Name    string
	Command string
	// Program must be installed for the contestant to take part.
	Program string
}

// Target is a bound on a ratio between ours and another contestant: of rates, and where Figure says
// so, of processor time or memory.
type Target struct {
	Against string
	Figure  Figure
	// Bound is the least ratio of Rate, the greatest of anything else.
	Bound float64
	// OrAgainst and OrBound give a lesser aim that suffices: a bound against another contestant.
	OrAgainst string
	OrBound   float64
	// Absolute bounds our own figure instead of a ratio: KiB of PeakMemory, or RoundTrips.
	Absolute float64
}

// IsCeiling reports whether a contestant moves the same bytes without a file transfer, and so shows
// what no copy is expected to beat.
func IsCeiling(contestant string) bool {
	return contestant == "ssh cat" || contestant == iperfStreams
}

// Figure is the measure of a target.
type Figure int

// The figures of a run.
const (
	Throughput Figure = iota
	Processor
	PeakMemory
	RoundTrips
	Carried // over a long link, in both directions
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
	// fastCipher is the one at which SSH costs least where the processor has AES.
	fastCipher = "aes128-gcm@openssh.com"
)

// UsftpProgram and BenchProgram are names of programs that are not looked up on the path.
const (
	UsftpProgram = "usftp"
	BenchProgram = "bench"
)

const usftpFlags = `-q -i "$KEY" -P "$PORT" -o UserKnownHostsFile="$KNOWN_HOSTS"`

var (
	sshCatGet = Contestant{"ssh cat", `ssh -F "$CONFIG" host cat "$SRC" >"$DST"`, "ssh"}
	sshCatPut = Contestant{"ssh cat", `ssh -F "$CONFIG" host "cat >$DST" <"$SRC"`, "ssh"}
	scpGet    = Contestant{"scp", `scp -q -F "$CONFIG" "host:$SRC" "$DST"`, "scp"}
	scpPut    = Contestant{"scp", `scp -q -F "$CONFIG" "$SRC" "host:$DST"`, "scp"}
	scpOldGet = Contestant{"scp -O", `scp -O -q -F "$CONFIG" "host:$SRC" "$DST"`, "scp"}
	scpOldPut = Contestant{"scp -O", `scp -O -q -F "$CONFIG" "$SRC" "host:$DST"`, "scp"}
	sftpGet   = Contestant{"sftp",
		`echo "get $SRC $DST" | sftp -q -F "$CONFIG" -b - host >/dev/null`, "sftp"}
	sftpPut = Contestant{"sftp",
		`echo "put $SRC $DST" | sftp -q -F "$CONFIG" -b - host >/dev/null`, "sftp"}
	usftpGet = Contestant{"usftp cp", `"$USFTP" cp ` + usftpFlags +
		` "$USER@$ADDRESS:$SRC" "$DST"`, UsftpProgram}
	usftpPut = Contestant{"usftp cp", `"$USFTP" cp ` + usftpFlags +
		` "$SRC" "$USER@$ADDRESS:$DST"`, UsftpProgram}
)

const (
	rcloneRemote = `:sftp,host=$ADDRESS,port=$PORT,user=$USER,key_file=$KEY,known_hosts_file=$KNOWN_HOSTS,shell_type=unix`
	// rclone as it comes lets the server hash the file afterwards, and reads large files in four
	// streams.
	rcloneTuned = rcloneRemote + `,disable_hashcheck=true,chunk_size=255k,concurrency=64`
	lftpOpen    = `set cmd:fail-exit yes; set sftp:connect-program 'ssh -a -x -F $CONFIG'; open sftp://$USER:@host`
)

func rclone(name, remote string, upload bool) Contestant {
	command := `rclone --config /dev/null copyto "` + remote + `:$SRC" "$DST"`
	if upload {
		command = `rclone --config /dev/null copyto "$SRC" "` + remote + `:$DST"`
	}
	return Contestant{name, command, "rclone"}
}

func lftp(upload bool) Contestant {
	command := `lftp -c "` + lftpOpen + `; get $SRC -o $DST"`
	if upload {
		command = `lftp -c "` + lftpOpen + `; put $SRC -o $DST"`
	}
	return Contestant{"lftp", command, "lftp"}
}

func commands(upload bool) []Contestant {
	if upload {
		return []Contestant{sshCatPut, scpPut, scpOldPut, sftpPut,
			rclone("rclone", rcloneRemote, true),
			rclone("rclone tuned", rcloneTuned, true), lftp(true), usftpPut}
	}
	return []Contestant{sshCatGet, scpGet, scpOldGet, sftpGet,
		rclone("rclone", rcloneRemote, false),
		rclone("rclone tuned", rcloneTuned, false), lftp(false), usftpGet}
}

func libraries(upload bool) []Contestant {
	direction := "get"
	if upload {
		direction = "put"
	}
	var all []Contestant
	for _, name := range []string{"pkgsftp-default", "pkgsftp-best", "usftp"} {
		all = append(all, Contestant{name, fmt.Sprintf(`"$BENCH" library %s %s "$SRC" "$DST"`, name,
			direction), BenchProgram})
	}
	return all
}

// All returns every row, in the order of the report.
func All() []Row {
	var all []Row
	for _, upload := range []bool{false, true} {
		all = append(all, rateRows(upload)...)
	}
	all = append(all, hostsRow())
	for _, upload := range []bool{false, true} {
		all = append(all, memoryRows(upload)...)
	}
	for _, upload := range []bool{false, true} {
		all = append(all, firstByteRow(upload))
	}
	all = append(all, loginRow())
	for _, upload := range []bool{false, true} {
		all = append(all, longRows(upload)...)
		all = append(all, fastRows(upload)...)
	}
	all = append(all, windowRow(), mailRow(), tinyRow())
	for _, upload := range []bool{false, true} {
		all = append(all, treeRows(upload)...)
		all = append(all, manyRows(upload)...)
	}
	for i, row := range all {
		all[i] = withYoung(row)
	}
	return append(append(all, youngRows()...), append(syncRows(), mountRows()...)...)
}

// Transport are the names of the rows that measure the SSH transport, of [All] and of [Serve].
func Transport() []string {
	return []string{"login", "first-byte-get", "first-byte-put", "tiny-put", "get", "put",
		"both-get",
		"both-put", "long-get", "long-put", "long-scp-put", "capped-get", "capped-put",
		"small-put-50ms", "memory-get-8GiB", ServeName("SCP", "gcm", false, 1)}
}

func verb(upload bool) string {
	if upload {
		return "put"
	}
	return "get"
}

func rateRows(upload bool) []Row {
	name := verb(upload)
	processor := 0.71 // 0.6 s/GiB where ssh takes 0.84
	if upload {
		processor = 0.68 // 0.5 where ssh takes 0.73
	}
	return []Row{
		{
			Name: name, Title: name + " of 1 GiB, " + fastCipher, Upload: upload, Bytes: gibibyte,
			Cipher: fastCipher,
			Ours:   "usftp cp", Contestants: commands(upload), Targets: []Target{
				{Against: "ssh cat", Bound: 1.05},
				{Against: "scp", Bound: 1.2, OrAgainst: "ssh cat", OrBound: 0.95},
				{Against: "scp -O", Bound: 1},
				{Against: "ssh cat", Figure: Processor, Bound: processor},
			},
		},
		{
			Name: name + "-default", Title: name + " of 1 GiB, each tool's default cipher",
			Upload: upload, Bytes: gibibyte,
			Ours: "usftp cp", Contestants: commands(upload), Targets: []Target{
				{Against: "ssh cat", Bound: 0.95},
				{Against: "scp", Bound: 1.2, OrAgainst: "ssh cat", OrBound: 0.95},
				{Against: "scp -O", Bound: 1},
			},
		},
		{
			Name: "library-" + name, Title: name + " of 1 GiB by libraries over x/crypto/ssh, " +
				fastCipher,
			Upload: upload, Bytes: gibibyte, Cipher: fastCipher,
			Ours: "usftp", Contestants: libraries(upload),
			Targets: []Target{{Against: "pkgsftp-best", Bound: 1.5}},
		},
		bothRow(upload),
	}
}

// hostsRow sends a part of the file to eight hosts, and all of it to one: as many bytes either way.
// The hosts are eight names of one server, which has a process for each.
func hostsRow() Row {
	const eight = "usftp cp --hosts"
	return Row{
		Name: "eight-hosts", Title: "800 MiB: a stream of 100 MiB to eight hosts, or one file to one", Upload: true,
		Bytes: 800 * mebibyte, Cipher: fastCipher, Ours: eight,
		Contestants: []Contestant{usftpPut,
			{eight, fmt.Sprintf(`head -c %d "$SRC" | "$USFTP" cp -q -F "$CONFIG" `+
				`--hosts h1,h2,h3,h4,h5,h6,h7,h8 - ":$DST"`, 100*mebibyte), UsftpProgram}},
		Apart:   map[string]Apart{eight: {NoFile: true}},
		Targets: []Target{{Against: "usftp cp", Bound: 1 / 1.1}},
	}
}

// memoryRows fetch a hole: the content of a file makes no difference to memory. What is sent is no
// hole, since that would not travel.
func memoryRows(upload bool) []Row {
	var all []Row
	for _, size := range []struct {
		name, title string
		bytes       int64
	}{{"64MiB", "64 MiB", 64 * mebibyte}, {"1GiB", "1 GiB", gibibyte},
		{"8GiB", "8 GiB", 8 * gibibyte}} {
		name := verb(upload)
		most := 32.0
		if !upload && size.bytes == 8*gibibyte {
			most = 20
		}
		contestants := []Contestant{sshCatGet, scpGet, sftpGet,
			rclone("rclone", rcloneRemote, false), usftpGet}
		if upload {
			contestants = []Contestant{sshCatPut, scpPut, sftpPut,
				rclone("rclone", rcloneRemote, true), usftpPut}
		}
		all = append(all, Row{
			Name: "memory-" + name + "-" + size.name, Title: name + " of " + size.title,
			Kind:   Memory,
			Upload: upload, Bytes: size.bytes, Sparse: !upload, Cipher: fastCipher, Ours: "usftp cp",
			Contestants: contestants,
			Targets:     []Target{{Figure: PeakMemory, Absolute: most * 1024}},
		})
	}
	return all
}

func firstByteRow(upload bool) Row {
	name := verb(upload)
	contestants := []Contestant{sshCatGet, scpGet, scpOldGet, sftpGet, usftpGet}
	if upload {
		contestants = []Contestant{sshCatPut, scpPut, scpOldPut, sftpPut, usftpPut}
	}
	return Row{
		Name: "first-byte-" + name, Title: name + " of a small file, up to its first bytes",
		Kind: FirstByte, Upload: upload, Bytes: 64 << 10, Cipher: fastCipher, Ours: "usftp cp",
		Contestants: contestants, Targets: []Target{{Against: "scp", Figure: RoundTrips, Bound: 1}},
	}
}
