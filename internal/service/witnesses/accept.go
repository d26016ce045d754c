package witnesses

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/witness"
	"github.com/remitrun/remit/internal/service/home"
)

// AcceptAction is the operator's action of accepting that a witness disagrees.
const AcceptAction = "witness.accept"

// errWasAccepted marks the error of a witness whose disagreement a person has accepted.
var errWasAccepted = errors.New("accepted")

func errAccepted(name string, d *witness.Disagreement) error {
	return fault.Wrap(fault.VerifyFailed, errWasAccepted, "%s; a person accepted that, so this witness protects nothing any more", d).
		ForOperator("give it a new place: another file or address under witnesses.%s in config.yaml", name)
}

// subject describes a disagreement for the record: its target and its digest.
func subject(name string, d *witness.Disagreement) (target, digest string) {
	if d.Root != nil {
		digest = hex.EncodeToString(d.Root[:])
	}
	return fmt.Sprintf("%s: %d events", name, d.Size), digest
}

// accepted looks for a record of the acceptance of a disagreement.
func accepted(ctx context.Context, st store.Store, name string, d *witness.Disagreement) (bool, error) {
	target, digest := subject(name, d)
	for e, err := range st.Find(ctx, store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.Operated)}}}) {
		if err != nil {
			return false, err
		}
		if e.Event.Kind != ledger.Operated || e.Event.Name != AcceptAction {
			continue
		}
		b, err := st.Load(ctx, e.Parts[ledger.PartDoc])
		if err != nil {
			return false, err
		}
		var about ledger.OperatorAction
		if json.Unmarshal(b, &about) == nil && about.Target == target && about.Digest == digest {
			return true, nil
		}
	}
	return false, nil
}

// Accept records that the ledger goes on although a witness disagrees, or this machine ([Here]). It
// returns the accepted disagreement; nil if the witness agrees.
func (s *Witnesses) Accept(ctx context.Context, name string) (*witness.Disagreement, error) {
	if name == Here {
		s.accepting = true
		st, err := s.Home.Ledger(ctx)
		if err != nil {
			return nil, err
		}
		return s.accept(ctx, st, name, s.checkSeen(ctx, st))
	}
	list, err := s.list()
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		if w.Name != name {
			continue
		}
		s.accepting = true
		st, err := s.Home.Ledger(ctx)
		if err != nil {
			return nil, err
		}
		if known := s.readNote(name); known != nil {
			if d, err := s.accept(ctx, st, name, differs(witness.Compare(ctx, st, known))); d != nil || err != nil {
				return d, errors.Join(err, os.Remove(s.note(name)))
			}
		}
		return s.accept(ctx, st, name, s.send(ctx, st, w).Err)
	}
	return nil, fault.New(fault.Usage, "no witness is called %q", name).ForOperator("remit witness lists them")
}

func (s *Witnesses) accept(ctx context.Context, st store.Backend, name string, err error) (*witness.Disagreement, error) {
	var d *witness.Disagreement
	if errors.Is(err, errWasAccepted) || !errors.As(err, &d) {
		return nil, err
	}
	about := ledger.OperatorAction{}
	about.Target, about.Digest = subject(name, d)
	if err := home.Operated(ctx, st, AcceptAction, about, 0); err != nil {
		return d, err
	}
	return d, s.forgetSeen() // its ledger was accepted too
}
