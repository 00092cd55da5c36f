package daemon

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/internal/ui"
)

// settingsOf adds the settings of a table of the configuration, by the table's name.
func settingsOf(all map[string][]string, table string, of reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Anonymous {
			settingsOf(all, table, field.Type)
			continue
		}
		name := field.Tag.Get("toml")
		all[table] = append(all[table], name)
		inner := field.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner.NumField() > 0 &&
			inner.Field(0).Tag.Get("toml") != "" {
			settingsOf(all, name, inner)
		}
	}
}

var (
	namedSetting = regexp.MustCompile("(?:`\\[([a-z_]+)\\]` )?`([a-z_]+)`")
	namedCommand = regexp.MustCompile("`usftpd ([a-z -]+)`")
)

// TestComingFrom: the settings and commands that the pages for those who come from other servers
// name as ours exist: in tables, those of the column of usftpd.
func TestComingFrom(t *testing.T) {
	t.Parallel()
	all := map[string][]string{}
	settingsOf(all, "", reflect.TypeFor[serveFile]())
	root := commandLine(&ui.App{})
	for page, least := range map[string]int{"sftpgo": 40, "aws-transfer": 25} {
		text := string(readFile(t, "../../../docs/coming-from-"+page+".md"))
		for _, command := range namedCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(command[1])
			if found, rest, err := root.Find(words); err != nil || len(rest) > 0 || found == root {
				t.Errorf("%s: there is no %s", page, command[0])
			}
		}
		named, ours, tables := 0, false, []string{}
		for line := range strings.Lines(text) {
			cells := strings.Split(line, "|")
			if len(cells) < 4 {
				ours = false
				continue
			}
			if strings.Contains(cells[2], "usftpd") {
				ours, tables = true, []string{""}
				switch {
				case strings.Contains(cells[2], "[[hooks]]"):
					tables = []string{"hooks"}
				case strings.HasSuffix(strings.TrimSpace(cells[1]), "user"),
					strings.HasSuffix(strings.TrimSpace(cells[1]), "`s3config`"):
					tables = []string{"", "users"}
				}
				continue
			}
			if !ours {
				continue
			}
			for _, setting := range namedSetting.FindAllStringSubmatch(cells[2], -1) {
				in := tables
				if setting[1] != "" {
					in = []string{setting[1]}
				}
				if named++; !slices.ContainsFunc(in, func(table string) bool {
					return slices.Contains(all[table], setting[2])
				}) {
					t.Errorf("%s: there is no setting %s", page, setting[0])
				}
			}
		}
		if named < least {
			t.Errorf("%s names only %d settings", page, named)
		}
	}
}
