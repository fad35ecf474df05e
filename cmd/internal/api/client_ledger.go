package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"tidings/store"
)

// Ledger returns the file of the ledger, and what is being done with it.
func (c *Client) Ledger(ctx context.Context) (LedgerFile, error) {
	return get[LedgerFile](ctx, c, "/v1/ledger", nil)
}

// RebuildLedger has the ledger made anew, and returns when that has begun. accept puts
// the new one in place although it differs.
func (c *Client) RebuildLedger(ctx context.Context, accept bool) (Operation, error) {
	return post[Operation](ctx, c, "/v1/ledger/rebuild", nil, map[string]bool{"accept": accept})
}

// VerifyLedger has the ledger compared with the log, and returns when that has begun.
func (c *Client) VerifyLedger(ctx context.Context) (Operation, error) {
	answer, err := c.do(ctx, http.MethodPost, "/v1/ledger/verify", nil, nil)
	if err != nil {
		return Operation{}, err
	}
	return decode[Operation](c, answer)
}

// CancelLedger ends the rebuild or verification that is under way.
func (c *Client) CancelLedger(ctx context.Context) (Operation, error) {
	answer, err := c.do(ctx, http.MethodDelete, "/v1/ledger/operation", nil, nil)
	if err != nil {
		return Operation{}, err
	}
	return decode[Operation](c, answer)
}

// LedgerBackup is a copy of the ledger as it comes.
type LedgerBackup struct {
	Size int64 // in bytes
	body io.ReadCloser
	// said is told how many of how many bytes came; it may be nil.
	said func(done, total uint64)
}

// BackupLedger begins a copy of the ledger, which the caller closes.
func (c *Client) BackupLedger(ctx context.Context) (*LedgerBackup, error) {
	client := *c.http()
	client.Timeout = 0 // it may be large
	res, err := c.open(ctx, &client, http.MethodGet, "/v1/ledger/backup", nil, nil)
	if err != nil {
		return nil, err
	}
	return &LedgerBackup{Size: res.ContentLength, body: res.Body}, nil
}

// WriteTo writes all of it to w, or returns an error.
func (b *LedgerBackup) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, io.TeeReader(b.body, &counting{of: b}))
	if err != nil {
		return n, fmt.Errorf("the backup broke off: %w", err)
	}
	if n != b.Size {
		return n, fmt.Errorf("the backup broke off: %d of %d bytes came", n, b.Size)
	}
	return n, nil
}

// Close ends it.
func (b *LedgerBackup) Close() error { return b.body.Close() }

// counting tells how much of a backup came.
type counting struct {
	of   *LedgerBackup
	came uint64
}

// Write implements io.Writer.
func (c *counting) Write(p []byte) (int, error) {
	if c.came += uint64(len(p)); c.of.said != nil {
		c.of.said(c.came, uint64(c.of.Size))
	}
	return len(p), nil
}

// SavedLedger is what is in a copy of the ledger.
type SavedLedger = store.Checked

// SaveLedger copies the ledger into a file that has its name when it is whole and
// checked; said is told how many of how many bytes came, and may be nil. Where there
// is a file of that name already the error is fs.ErrExist.
func (c *Client) SaveLedger(ctx context.Context, path string, said func(done, total uint64)) (s SavedLedger, err error) {
	if _, err := os.Lstat(path); err == nil {
		return s, os.ErrExist
	}
	b, err := c.BackupLedger(ctx)
	if err != nil {
		return s, err
	}
	b.said = said
	defer func() { err = errors.Join(err, b.Close()) }()
	return store.Save(ctx, b, path)
}
