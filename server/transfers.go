package server

import (
	"context"
	"errors"

	"github.com/usftp/usftp/wire"
)

// ErrTransferQuota refuses to move more bytes than [Policy].Uploads or [Policy].Downloads allow.
var ErrTransferQuota = &StatusError{Code: wire.Failure, Message: "transfer quota exceeded"}

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
