package rows

import "fmt"

// ServeRow is one job that several servers do for the same clients: so many streams at a time, each
// a client of its own that moves a file of its own.
type ServeRow struct {
	Name string
	// Protocol is SFTP or SCP.
	Protocol string
	Upload   bool
	Ciphers  Ciphers
	Streams  int
	// Bytes is the size of each stream's file.
	Bytes       int64
	Contestants []ServeContestant
}

// Ciphers are the ones that the clients are told to use.
type Ciphers struct {
	Name, Title string
	// flags are those of a client; without any, it takes what it likes best.
	flags string
}

// ServeContestant is a client at a server. The shell runs its command for each stream, with these
// variables beside those of a [Contestant]: $i, the stream's number; $HERE and $THERE, what the
// names of files begin with here and at the server.
type ServeContestant struct {
	Server, Client string
	Command        string
	// Program is the client's.
	Program string
}

// Name is how results know the contestant.
func (c ServeContestant) Name() string { return c.Server + ": " + c.Client }

// The servers.
const (
	OpenSSH  = "openssh"
	SFTPGo   = "sftpgo"
	Usftp    = "usftp"
	Balanced = "balanced" // HAProxy before two instances of usftp's
)

// Servers are all of them, in the order of the report.
func Servers() []string { return []string{OpenSSH, SFTPGo, Usftp, Balanced} }

const (
	// oneStream is what a single stream moves, and manyStreams each of several: so much that a
	// login does not matter, and that a sweep through all of them ends.
	oneStream   = gibibyte
	manyStreams = 256 * mebibyte
)

// ServeCiphers are those of the tables: the two that SFTPGo's notes compare, and what the clients
// prefer.
func ServeCiphers() []Ciphers {
	return []Ciphers{
		{"gcm", fastCipher, " -o Ciphers=" + fastCipher},
		{"ctr", "aes128-ctr with hmac-sha2-256", " -o Ciphers=aes128-ctr -o MACs=hmac-sha2-256"},
		{"default", "the clients' default cipher", ""},
	}
}

// ServeStreams are the numbers of streams.
func ServeStreams() []int { return []int{1, 2, 3, 4, 8} }

// Serve returns every row of the servers, in the order of the report.
func Serve() []ServeRow {
	var all []ServeRow
	for _, protocol := range []string{"SFTP", "SCP"} {
		for _, ciphers := range ServeCiphers() {
			for _, upload := range []bool{false, true} {
				for _, streams := range ServeStreams() {
					all = append(all, serveRow(protocol, ciphers, upload, streams))
				}
			}
		}
	}
	return all
}

// ServeName is the name of a row.
func ServeName(protocol, ciphers string, upload bool, streams int) string {
	return fmt.Sprintf("serve-%s-%s-%s-%d",
		map[string]string{"SFTP": "sftp", "SCP": "scp"}[protocol], verb(upload), ciphers, streams)
}

func serveRow(protocol string, ciphers Ciphers, upload bool, streams int) ServeRow {
	row := ServeRow{
		Name:     ServeName(protocol, ciphers.Name, upload, streams),
		Protocol: protocol, Upload: upload, Ciphers: ciphers, Streams: streams, Bytes: manyStreams,
	}
	if streams == 1 {
		row.Bytes = oneStream
	}
	for _, client := range serveClients(protocol, ciphers, upload) {
		for _, server := range Servers() {
			client.Server = server
			row.Contestants = append(row.Contestants, client)
		}
	}
	return row
}

// serveClients are the clients. Many upload one file; each download has a target of its own.
func serveClients(protocol string, ciphers Ciphers, upload bool) []ServeContestant {
	const here, there = `"$HERE/target$i"`, `$THERE/source`
	const from, to = `"$HERE/source"`, `$THERE/target$i`
	open := `-q -F "$CONFIG"` + ciphers.flags
	ours := `"$USFTP" cp ` + usftpFlags + ciphers.flags
	switch {
	case protocol == "SCP" && upload:
		return []ServeContestant{{Client: "scp -O", Program: "scp",
			Command: `scp -O ` + open + ` ` + from + ` "host:` + to + `"`}}
	case protocol == "SCP":
		return []ServeContestant{{Client: "scp -O", Program: "scp",
			Command: `scp -O ` + open + ` "host:` + there + `" ` + here}}
	case upload:
		return []ServeContestant{
			{Client: "sftp", Program: "sftp", Command: `echo "put $HERE/source ` + to +
				`" | sftp ` + open + ` -b - host >/dev/null`},
			{Client: "usftp cp", Program: UsftpProgram,
				Command: ours + ` ` + from + ` "$USER@$ADDRESS:` + to + `"`},
		}
	default:
		return []ServeContestant{
			{Client: "sftp", Program: "sftp", Command: `echo "get ` + there +
				` $HERE/target$i" | sftp ` + open + ` -b - host >/dev/null`},
			{Client: "usftp cp", Program: UsftpProgram,
				Command: ours + ` "$USER@$ADDRESS:` + there + `" ` + here},
		}
	}
}

// Together is a command of the shell that runs one for each stream, all at a time, and fails with
// the first that fails.
func Together(command string, streams int) string {
	return fmt.Sprintf("running=; for i in $(seq %d); do { %s; } & running=\"$running $!\"; done; failed=0; "+
		"for child in $running; do wait $child || failed=1; done; exit $failed", streams, command)
}
