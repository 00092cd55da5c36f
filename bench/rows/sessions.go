package rows

// SessionRow is a row about what a server holds for many sessions at a time, each a connection of
// its own.
type SessionRow struct {
	Name, Title string
	Work        SessionWork
	Sessions    int
	// Together is how many there are at a time.
	Together int
	// Bytes is the size of the file that each moves.
	Bytes int64
	// MostKiB is what the server may take for each at most: at its peak, and for sessions that are
	// idle in the end.
	MostKiB int64
}

// SessionWork is the work of a session.
type SessionWork int

const (
	// Downloads has each session fetch a file.
	Downloads SessionWork = iota
	// Uploads has each bring one.
	Uploads
	// Idles has each list a directory and then stay.
	Idles
	// Visits has each come, list a directory and leave.
	Visits
)

// SessionServers are the servers that take part: those that are one process. OpenSSH's has two for
// each session, which share most of their memory.
func SessionServers() []string { return []string{SFTPGo, Usftp} }

// Sessions returns every row of sessions.
func Sessions() []SessionRow {
	return []SessionRow{
		{Name: "sessions-get", Title: "100 sessions, each fetching a file of 64 MiB",
			Work: Downloads, Sessions: 100, Together: 100,
			Bytes: 64 * mebibyte, MostKiB: 4 << 10},
		{Name: "sessions-put", Title: "100 sessions, each bringing a file of 64 MiB", Work: Uploads,
			Sessions: 100, Together: 100,
			Bytes: 64 * mebibyte, MostKiB: 4 << 10},
		{Name: "sessions-idle", Title: "100 sessions that have listed a directory and are idle",
			Work: Idles, Sessions: 100, Together: 100,
			MostKiB: 256},
		{Name: "sessions-visits",
			Title: "1,000 sessions that come, list a directory and leave, 100 at a time",
			Work:  Visits, Sessions: 1000,
			Together: 100},
	}
}
