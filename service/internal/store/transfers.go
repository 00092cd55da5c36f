package store

import (
	"strings"
	"time"

	"github.com/usftp/usftp/internal/site"
)

// cleanTransfers removes the counts of bytes that users moved before the last month, some at a
// time. [site.TransferTree] documents the names of the trees; the month is compared, not the name,
// since databases sort texts in ways of their own.
func (q *quotas) cleanTransfers(t tx) error {
	const at = len(site.TransferTree)
	last := time.Now().UTC().AddDate(0, 0, -62).Format("2006-01")
	q.mu.Lock()
	for key := range q.all {
		if month, ok := strings.CutPrefix(key.tree, site.TransferTree); ok &&
			month[:len(last)] <= last {
			delete(q.all, key)
		}
	}
	q.mu.Unlock()
	for _, table := range []string{"leases", "quotas"} {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE tree IN (SELECT tree FROM `+table+`
			WHERE substr(tree, 1, $1) = $2 AND substr(tree, $3, $4) <= $5 LIMIT $6)`, at,
			site.TransferTree, at+1, len(last), last, removedAtOnce); err != nil {
			return err
		}
	}
	return nil
}
