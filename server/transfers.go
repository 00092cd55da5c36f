package server

import (
	"context"
	"errors"

	"github.com/usftp/usftp/wire"
)

// ErrTransferQuota refuses to move more bytes than [Policy].Uploads or [Policy].Downloads allow.
var ErrTransferQuota = &StatusError{Code: wire.Failure, Message: "transfer quota exceeded"}

// NewAccount returns an account in memory. A limit of 0 means none.
func NewAccount(maxBytes, maxFiles int64) Account {
	return &counter{now: Usage{MaxBytes: maxBytes, MaxFiles: maxFiles}}
}

// moves takes bytes of contents from an account, which may be nil, before they are written or sent.
func moves(ctx context.Context, account Account, bytes int) error {
	if account == nil || bytes <= 0 {
		return nil
	}
	err := account.Reserve(ctx, int64(bytes), 0)
	if errors.Is(err, ErrQuota) {
		return ErrTransferQuota
	}
	return err
}
