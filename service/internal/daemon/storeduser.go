package daemon

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/usftp/usftp/internal/site"
	"github.com/usftp/usftp/server/sshd"
	"github.com/usftp/usftp/service/internal/store"
)

// storedUser returns a user of the store, who may be of a group of the configuration. can says
// whether links can be kept in, see keptIn.
func storedUser(u *store.User, groups map[string]*groupTable, can bool) (one site.Account,
	err error) {
	if u.Outsider() {
		one.Name, one.Admission.Disabled = u.Name, true
		return one, nil
	}
	t := userTable{Name: u.Name, Group: u.Group}
	t.Root = u.Root
	t.QuotaBytes, t.QuotaFiles = sizeText(u.QuotaBytes), countNumber(u.QuotaFiles)
	t.Bandwidth, t.BandwidthUp, t.BandwidthDown = sizeText(u.Bandwidth), sizeText(u.Up),
		sizeText(u.Down)
	t.Sessions = countNumber(u.Sessions)
	if u.SecondFactor {
		t.SecondFactor.text = "totp"
	}
	if u.Disabled {
		t.Disabled = &u.Disabled
	}
	if u.ReadOnly {
		t.ReadOnly = &u.ReadOnly
	}
	if t.Expires, err = parseDate(u.Expires); err != nil {
		return one, err
	}
	for _, network := range u.AllowFrom {
		prefix, err := parsePrefix(network)
		if err != nil {
			return one, err
		}
		t.AllowFrom = append(t.AllowFrom, prefixText{prefix})
	}
	if u.Group != "" {
		group := groups[u.Group]
		if group == nil {
			return one, errNoGroup(u.Group)
		}
		t.from(group)
	}
	if t.Root == "" {
		return one, errNoRoot
	}
	if one, _, err = t.account(); err == nil {
		_, err = keptIn(&one, can)
	}
	if err != nil {
		return one, err
	}
	usePassword(&one, u.Password)
	one.Group = u.Group
	if len(u.Keys) > 0 {
		one.Keys = sshd.ParseAuthorizedKeys("the store", []byte(strings.Join(u.Keys, "\n")))
	}
	return one, nil
}

var errNoRoot = errors.New("no root: set it, or a group that has one")

// parseDate parses a date; "" is none.
func parseDate(text string) (*toml.LocalDate, error) {
	if text == "" {
		return nil, nil
	}
	date, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return nil, fmt.Errorf("%q is no date: use a form such as 2027-01-31", text)
	}
	return &toml.LocalDate{Year: date.Year(), Month: int(date.Month()), Day: date.Day()}, nil
}
