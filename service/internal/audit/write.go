package audit

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/service/internal/store"
)

// Sets are the kinds of records that --only selects, by the set's name.
var Sets = map[string][]string{
	"logins": {string(server.LoggedIn), string(server.ConnectionClosed),
		string(server.ConnectionIdle)},
	"files": {string(server.FileClosed), string(server.FileAbandoned), string(server.FileFailed),
		string(server.CopyFailed)},
	"changes": {string(server.TreeChanged)},
	"failures": {string(server.LoginFailed), string(server.LoginRefused),
		string(server.SessionRefused),
		string(server.SessionFailed), string(server.CommandRefused), string(server.RequestDenied),
		string(server.BadRequest), string(server.FileAbandoned), string(server.FileFailed),
		string(server.CopyFailed), string(server.ClientFailed)},
	"bans":  {string(server.AddressBanned), string(server.UserBanned)},
	"admin": {Administered},
}

// gaps are shown whatever is selected: they say that records are missing.
var gaps = []string{LeftOut, store.RecordsLost}

// In reports whether a record is in one of the named sets. No names select all records.
func In(r store.Record, names []string) bool {
	in := func(name string) bool { return slices.Contains(Sets[name], r.Kind) }
	return len(names) == 0 || slices.Contains(gaps, r.Kind) || slices.ContainsFunc(names, in)
}

// A Writer writes records, each as it comes.
type Writer interface {
	Write(r store.Record) error
	Flush() error
}

// JSON returns a writer that writes one line of JSON for each record.
func JSON(w io.Writer) Writer { return jsonLines{w} }

type jsonLines struct{ w io.Writer }

func (j jsonLines) Write(r store.Record) error {
	r.Time = r.Time.UTC()
	text, err := json.Marshal(r)
	if err == nil {
		_, err = j.w.Write(append(ui.EscapeJSON(text), '\n'))
	}
	return err
}

func (jsonLines) Flush() error { return nil }

// columns are the columns of CSV.
var columns = []string{"time", "node", "kind", "user", "remote", "client", "method", "key",
	"protocol", "request", "path", "to", "transfer", "read", "written", "seconds", "details", "by",
	"error", "count", "sha256"}

// CSV returns a writer that writes a line of column names, and then a line of comma-separated
// values for each record. It is for spreadsheets: no value can become a formula, and unprintable
// characters are escaped.
func CSV(w io.Writer) Writer { return &lines{csv: csv.NewWriter(w)} }

type lines struct {
	csv   *csv.Writer
	begun bool
}

func (l *lines) head() error {
	if l.begun {
		return nil
	}
	l.begun = true
	return l.csv.Write(columns)
}

func (l *lines) Write(r store.Record) error {
	if err := l.head(); err != nil {
		return err
	}
	values := []string{r.Time.UTC().Format(time.RFC3339), r.Node, r.Kind, r.User, r.Remote,
		r.Client, r.Method, r.Key, r.Protocol, r.Request, r.Path, r.To, transfer(r), number(r.Read),
		number(r.Written), "", r.Details, r.By, r.Error, number(r.Count), r.SHA256}
	if r.Seconds > 0 {
		values[15] = strconv.FormatFloat(r.Seconds, 'f', -1, 64)
	}
	for i := range values {
		values[i] = cell(values[i])
	}
	return l.csv.Write(values)
}

func (l *lines) Flush() error {
	if err := l.head(); err != nil {
		return err
	}
	l.csv.Flush()
	return l.csv.Error()
}

// cell returns a value that no spreadsheet takes for a formula: one user chooses the names of
// uploads, and another opens the spreadsheet. An apostrophe in front makes it text.
func cell(value string) string {
	value = ui.Printable(value)
	start := strings.TrimLeftFunc(value, unicode.IsSpace)
	if strings.IndexAny(start, "=+-@＝＋－＠|%") == 0 {
		return "'" + value
	}
	return value
}

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func transfer(r store.Record) string {
	switch server.EventKind(r.Kind) {
	case server.FileClosed, server.FileAbandoned, server.FileFailed:
		if r.Upload {
			return "upload"
		}
		return "download"
	}
	return ""
}

// Table returns a writer that writes one line for people for each record.
func Table(w io.Writer) Writer { return table{w} }

type table struct{ w io.Writer }

func (t table) Write(r store.Record) error {
	_, err := fmt.Fprintf(t.w, "%s  %-12s  %-22s  %s\n", r.Time.Local().Format(time.DateTime),
		ui.Printable(orDash(r.User)), ui.Printable(orDash(r.Remote)), ui.Printable(said(r)))
	return err
}

func (table) Flush() error { return nil }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// said describes the event, on one line.
func said(r store.Record) string {
	parts := []string{r.Kind}
	add := func(part ...string) {
		if part[len(part)-1] != "" {
			parts = append(parts, part...)
		}
	}
	switch server.EventKind(r.Kind) {
	case server.TreeChanged:
		parts = nil
	case server.FileClosed:
		parts = []string{transfer(r)}
	case server.FileAbandoned, server.FileFailed:
		add(transfer(r))
	case server.LoggedIn:
		add("by", r.Method)
		add(r.Key)
		add("with", r.Client)
	}
	if r.Count > 0 {
		parts = append(parts, strconv.FormatInt(r.Count, 10))
	}
	add(r.Request)
	add(r.Path)
	add("to", r.To)
	if transfer(r) != "" {
		parts = append(parts, ui.Amount(float64(max(r.Read, r.Written))))
		add("SHA-256", r.SHA256)
	}
	if slices.Contains(Sets["bans"], r.Kind) {
		parts = append(parts, fmt.Sprintf("for %.0f s", r.Seconds))
	}
	add(r.Details)
	add("by", byOf(r))
	add("error:", r.Error)
	return strings.Join(parts, " ")
}

func byOf(r store.Record) string {
	if r.Kind == string(server.RequestDenied) {
		return r.By
	}
	return ""
}
