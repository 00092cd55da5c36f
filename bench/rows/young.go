package rows

import (
	"maps"
	"slices"
)

// youngSuffix ends the name of a contestant whose source was written to just before.
const youngSuffix = ", file just written"

// withYoung adds usftp once more to a row that gets files: of a source that was written to just
// before each run, as builds are. SFTP's times are whole seconds, so a copy has to see that such a
// file has not been written to again.
func withYoung(row Row) Row {
	at := slices.IndexFunc(row.Contestants, func(c Contestant) bool { return c.Name == row.Ours })
	if row.Upload || row.Kind != Rate || row.Contestants[at].Program != UsftpProgram {
		return row
	}
	young, apart := row.Contestants[at], row.Apart[row.Ours]
	young.Name += youngSuffix
	apart.Young = true
	row.Contestants = append(slices.Clip(row.Contestants), young)
	row.Apart = maps.Clone(row.Apart)
	if row.Apart == nil {
		row.Apart = map[string]Apart{}
	}
	row.Apart[young.Name] = apart
	return row
}

// Young returns the name of the contestant that is ours with a source written to just before, or
// "".
func (r Row) Young() string {
	if name := r.Ours + youngSuffix; r.Apart[name].Young {
		return name
	}
	return ""
}
