package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// maxAnswer bounds the bytes read of a witness's answer.
const maxAnswer = 64 << 10

// Poster makes the requests to a witness's address.
type Poster func(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error)

// Cosigning is a witness of the protocol c2sp.org/tlog-witness, such as another Remit.
type Cosigning struct {
	Key *ledger.CosignKey
	Do  Poster
	Now func() time.Time
}

var _ Witness = (*Cosigning)(nil)

// Check implements Witness. The protocol has no request that only asks.
func (w *Cosigning) Check(context.Context, Log) error { return nil }

// Send implements Witness. It returns the checkpoint with the witness's cosignature.
func (w *Cosigning) Send(ctx context.Context, l Log, known []byte) ([]byte, error) {
	old := int64(0)
	if c, err := l.OpenCheckpoint(known); err == nil {
		old = c.Size
	}
	for range 3 { // another node may have sent one meanwhile
		signed, err := l.Checkpoint(ctx)
		if err != nil {
			return nil, err
		}
		c, err := l.OpenCheckpoint(signed)
		if err != nil {
			return nil, err
		}
		if c.Size == 0 {
			return nil, nil // the checkpoint of a log without events says nothing
		}
		if c.Size < old {
			return nil, &Disagreement{Size: old, Ledger: c}
		}
		add := addition{old: old, note: signed}
		if old > 0 {
			if add.proof, err = l.ProveExtension(ctx, c.Size, old); err != nil {
				return nil, err
			}
		}
		status, answer, err := w.Do(ctx, http.MethodPost, "/add-checkpoint", []byte(add.String()))
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusOK:
			return w.cosigned(signed, answer)
		case status == http.StatusUnprocessableEntity:
			return nil, &Disagreement{Size: old, Ledger: c}
		case status != http.StatusConflict:
			return nil, answered(status)
		}
		has, err := strconv.ParseInt(strings.TrimSuffix(string(answer), "\n"), 10, 64)
		if err != nil || has < 0 {
			return nil, fault.New(fault.StoreFailed, "the witness answered with a conflict that names no size")
		}
		if has == old { // it has another root of this size
			return nil, &Disagreement{Size: has, Ledger: c}
		}
		old = has
	}
	return nil, fault.New(fault.StoreFailed, "the witness changes its note with each request")
}

// answered is the error of an unexpected status.
func answered(status int) error {
	hint := "look into the witness's log"
	switch status {
	case http.StatusNotFound:
		hint = "its operator adds this ledger's public key, keys/ledger.pub; and the URL ends before /add-checkpoint"
	case http.StatusForbidden, http.StatusUnauthorized:
		hint = "its operator compares the key that it has with keys/ledger.pub"
	}
	return fault.New(fault.StoreFailed, "the witness answered with status %d", status).WithHint("%s", hint)
}

// cosigned adds the cosignature to the checkpoint, and verifies it.
func (w *Cosigning) cosigned(signed, answer []byte) ([]byte, error) {
	both := append(bytes.Clone(signed), answer...)
	n, err := note.Open(both, note.VerifierList(w.Key))
	if err != nil {
		return nil, fault.Wrap(fault.VerifyFailed, err, "the witness's answer is not signed with its key %s", w.Key.Name()).
			WithHint("compare the key in config.yaml with the one that its operator shows")
	}
	const skew = 10 * time.Minute
	if at, ok := ledger.CosignedAt(n, w.Key); !ok || at.After(w.Now().Add(skew)) || at.Before(w.Now().Add(-skew)) {
		return nil, fault.New(fault.VerifyFailed, "the witness's signature is of %s, which is not now", at.UTC().Format(time.RFC3339)).
			WithHint("compare the clocks of both machines")
	}
	return both, nil
}

// Notes is any HTTP address that takes signed notes by POST. If it also returns the newest
// one by GET, the ledger is compared with that.
type Notes struct{ Do Poster }

var _ Witness = (*Notes)(nil)

// Check implements Witness.
func (w *Notes) Check(ctx context.Context, l Log) error {
	status, answer, err := w.Do(ctx, http.MethodGet, "", nil)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		err := Compare(ctx, l, answer)
		if errors.Is(err, fault.VerifyFailed) {
			return fault.New(fault.VerifyFailed, "the witness returned a note that this ledger has not signed").WithHint("its address must return the newest note of this ledger only")
		}
		return err
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusNoContent, status == http.StatusNotImplemented:
		return nil // nothing there, or it cannot be asked
	}
	return answered(status)
}

// Send implements Witness.
func (w *Notes) Send(ctx context.Context, l Log, _ []byte) ([]byte, error) {
	if err := w.Check(ctx, l); err != nil {
		return nil, err
	}
	signed, err := l.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	if c, err := l.OpenCheckpoint(signed); err != nil || c.Size == 0 {
		return nil, err
	}
	status, _, err := w.Do(ctx, http.MethodPost, "", signed)
	if err == nil && (status < 200 || status > 299) {
		err = answered(status)
	}
	if err != nil {
		return nil, err
	}
	return signed, nil
}

// Client makes a Poster for a base URL. header adds the headers that the address needs.
func Client(c *http.Client, base string, header func(http.Header) error) Poster {
	return func(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
		req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+path, bytes.NewReader(body))
		if err != nil {
			return 0, nil, fault.New(fault.Usage, "the witness's address is not valid")
		}
		req.Header.Set("User-Agent", "remit")
		if body != nil {
			req.Header.Set("Content-Type", "text/plain; charset=utf-8")
		}
		if err := header(req.Header); err != nil {
			return 0, nil, err
		}
		res, err := c.Do(req)
		if err != nil {
			return 0, nil, fmt.Errorf("the witness cannot be reached: %w", errors.Unwrap(err)) // without the URL, which may be a secret
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
		return res.StatusCode, answer, err
	}
}
