package store

import (
	"strings"
	"time"

	"github.com/usftp/usftp/internal/site"
)

// cleanTransfers removes the counts of bytes that users moved before the last month, some at a
// time, and from memory those of periods that are over. [site.TransferTree] documents the names of
// the trees; the month is compared, not the name, since databases sort texts in ways of their own.
func (q *quotas) cleanTransfers(t tx) error {
	const at = len(site.TransferTree)
	last := time.Now().UTC().AddDate(0, 0, -62).Format("2006-01")
	lately := time.Now().UTC().AddDate(0, 0, -2).Format(time.DateOnly)
	q.mu.Lock()
	for tree, h := range q.all {
		name, ok := strings.CutPrefix(tree, site.TransferTree)
		period, _, _ := strings.Cut(name, "/")
		if ok && (name[:len(last)] <= last || period < lately[:len(period)] && h.idle()) {
			delete(q.all, tree)
		}
	}
	q.mu.Unlock()
	for _, table := range []string{"leases", "quotas"} {
		if err := t.run(`DELETE FROM `+table+` WHERE tree IN (SELECT tree FROM `+table+`
			WHERE substr(tree, 1, $1) = $2 AND substr(tree, $3, $4) <= $5 LIMIT $6)`, at,
			site.TransferTree, at+1, len(last), last, removedAtOnce); err != nil {
			return err
		}
	}
	return nil
}

// idle reports whether nobody uses a count, and the store knows all about it.
func (h *holding) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.used && !h.uncertain() && len(h.asking) == 0
}
