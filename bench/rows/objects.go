package rows

import "time"

// ObjectRow is one job that servers do with files in the same object storage, and that minio-go,
// which ours speaks to it with, does without any.
type ObjectRow struct {
	Name, Title string
	Work        ObjectWork
	// Bytes is the size of each file, and Names how many objects the directory that is listed has.
	Bytes int64
	Names int
	// Sessions is how many there are at a time, or how many users log in.
	Sessions    int
	Contestants []ObjectContestant
	Bars        []ObjectBar
}

// ObjectWork is a kind of job.
type ObjectWork int

const (
	// Commands has a command of each contestant do the job.
	Commands ObjectWork = iota
	// Abandons has a client go away half way through an upload in place of a file, and through a new
	// one: nothing may appear, the old file stays, and parts are kept for resuming.
	Abandons
	// Trickles has many sessions that upload slowly.
	Trickles
	// Logins has users log in, and leave.
	Logins
)

// ObjectContestant is a command at a server, or minio-go's own. The shell runs it with the variables
// of a [ServeContestant], of which $THERE is "/", and $BENCH. Files are in $THERE; Before is run
// first, and not measured.
type ObjectContestant struct {
	Server, Client  string
	Before, Command string
}

// Name is how results know the contestant.
func (c ObjectContestant) Name() string {
	if c.Client == "" {
		return c.Server
	}
	return c.Server + ": " + c.Client
}

// ObjectBar bounds a figure of ours, or, if Against names somebody, its ratio to his.
type ObjectBar struct {
	Figure  ObjectFigure
	Against string
	AtLeast float64 // or else
	AtMost  float64
}

// ObjectFigure is the measure of a bar.
type ObjectFigure string

// The figures of a bar.
const (
	ObjectRate      ObjectFigure = "rate"
	ObjectSeconds   ObjectFigure = "time"
	ObjectProcessor ObjectFigure = "processor time"
	ObjectMemory    ObjectFigure = "memory, MiB"
	ObjectKept      ObjectFigure = "kept of a half, share"
)

// The contestants of these rows, besides SFTPGo with its S3 backend and usftpd.
const (
	// Minio is minio-go itself, and signs as usftpd does.
	Minio = "minio-go"
	// OneNode is an usftpd without a store.
	OneNode = "one node"
	// ThreeNodes are three with one store in PostgreSQL.
	ThreeNodes = "three nodes"
)

// ObjectOurs is ours in a row.
func (r ObjectRow) ObjectOurs() string {
	switch r.Work {
	case Logins:
		return ThreeNodes
	case Commands:
		return Usftp + ": sftp"
	}
	return Usftp
}

// TrickleTime is how long each slow upload is to take.
const TrickleTime = 15 * time.Second

// objectCommands are the same command of sftp at both servers, and one of minio-go.
func objectCommands(before, command, minio string) (all []ObjectContestant) {
	sftp := func(batch string) string {
		if batch == "" {
			return ""
		}
		return `echo "` + batch + `" | sftp -q -F "$CONFIG" -b - -o Ciphers=` + fastCipher + ` host`
	}
	for _, server := range []string{SFTPGo, Usftp} {
		all = append(all, ObjectContestant{Server: server, Client: "sftp", Before: sftp(before),
			Command: sftp(command)})
	}
	if minio != "" {
		all = append(all, ObjectContestant{Server: Minio, Command: `"$BENCH" objects ` + minio})
	}
	return all
}

// Objects returns every row of object storage.
func Objects() []ObjectRow {
	atServers := func(names ...string) (all []ObjectContestant) {
		for _, name := range names {
			all = append(all, ObjectContestant{Server: name})
		}
		return all
	}
	const sftpgo = SFTPGo + ": sftp"
	return []ObjectRow{
		{Name: "objects-put", Title: "put of 1 GiB", Bytes: gibibyte,
			Contestants: objectCommands("", "put $HERE/source target", "put"),
			Bars: []ObjectBar{{Figure: ObjectRate, Against: Minio, AtLeast: 0.9},
				{Figure: ObjectRate, Against: sftpgo, AtLeast: 1.4},
				{Figure: ObjectProcessor, Against: sftpgo, AtMost: 0.45}}},
		{Name: "objects-get", Title: "get of 1 GiB", Bytes: gibibyte,
			Contestants: objectCommands("", "get source $HERE/target", "get"),
			Bars: []ObjectBar{{Figure: ObjectRate, Against: Minio, AtLeast: 0.8},
				{Figure: ObjectRate, Against: sftpgo, AtLeast: 1.8},
				{Figure: ObjectProcessor, Against: sftpgo, AtMost: 0.45}}},
		{Name: "objects-list", Title: "a listing of 100,000 names", Names: 100_000,
			Contestants: objectCommands("", "ls -1f many", "list"),
			Bars:        []ObjectBar{{Figure: ObjectSeconds, Against: Minio, AtMost: 1.2}}},
		{Name: "objects-rename", Title: "a rename of a .filepart of 1 GiB", Bytes: gibibyte,
			Contestants: objectCommands("put $HERE/source target.filepart",
				"rename target.filepart target", ""),
			Bars: []ObjectBar{{Figure: ObjectSeconds, AtMost: 0.6}}},
		{Name: "objects-abandoned", Title: "clients that go away half way through 256 MiB",
			Work: Abandons, Bytes: 256 * mebibyte, Contestants: atServers(SFTPGo, Usftp),
			Bars: []ObjectBar{{Figure: ObjectKept, AtLeast: 0.8}}},
		{Name: "objects-slow", Title: "32 slow uploads of 24 MiB, with a budget of 128 MiB",
			Work: Trickles, Bytes: 24 * mebibyte, Sessions: 32,
			Contestants: atServers(SFTPGo, Usftp),
			Bars:        []ObjectBar{{Figure: ObjectMemory, AtMost: 320}}},
		{Name: "objects-logins", Title: "logins of 500 users with keys, 16 at a time",
			Work: Logins, Sessions: 500, Contestants: atServers(OneNode, ThreeNodes),
			Bars: []ObjectBar{{Figure: ObjectSeconds, Against: OneNode, AtMost: 1 / 0.8}}},
	}
}
