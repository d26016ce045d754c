package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// verifyFlags are the flags of remit verify.
type verifyFlags struct {
	proof, checkpoint, save string
	checkProof, key         string

	sinceLast bool
}

func (s *session) verifyCmd() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify [RUN]",
		Short: "Check that the record was not altered",
		Long: `Recomputes all hashes of the ledger, or of one run, and checks the signed
checkpoints. Every altered record is listed.

--since-last reads only the events since the last verification of the ledger
that found nothing altered: fast, also for a long record. It does not
notice if older events, their payloads or the lists of their runs were altered
after that; the answer says which events were not read. Verify the whole ledger
from time to time. The result is kept, signed, in $REMIT_HOME.

A checkpoint stored elsewhere also detects that the whole ledger was replaced:
--save-checkpoint FILE writes a signed checkpoint, --checkpoint FILE checks
that this ledger extends it. The witnesses of config.yaml are compared, too;
one that cannot be reached is named. So are rotations of the ledger's key that
the events and keys/ do not both have, and a wrong keys/ledger.pub.

--proof RUN prints a proof that the run is in the log. --check-proof FILE with
--key FILE (the ledger's keys/ledger.pub) checks such a proof without a ledger.
`,
		Example: `  remit verify
  remit verify 0199f3c2
  remit verify --since-last
  remit verify --save-checkpoint kept.note
  remit verify --checkpoint kept.note
  remit verify --proof 0199f3c2 > run.proof.json
  remit verify --check-proof run.proof.json --key ledger.pub`,
		Args: cobra.MaximumNArgs(1),

		ValidArgsFunction: s.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.checkProof != "" || f.key != "" {
				return s.checkProof(f)
			}
			return s.verify(cmd.Context(), f, args)
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.sinceLast, "since-last", false, "read only the events since the last verification of the ledger")
	fl.StringVar(&f.proof, "proof", "", "print an inclusion proof of this `RUN` instead")
	fl.StringVar(&f.checkpoint, "checkpoint", "", "also check that the ledger extends the checkpoint in this `FILE`")
	fl.StringVar(&f.save, "save-checkpoint", "", "write a signed checkpoint to this `FILE` if the check succeeds")
	fl.StringVar(&f.checkProof, "check-proof", "", "check the proof in this `FILE` instead, without a ledger")
	fl.StringVar(&f.key, "key", "", "public key `FILE` for --check-proof")
	c.MarkFlagsRequiredTogether("check-proof", "key")
	c.MarkFlagsMutuallyExclusive("proof", "checkpoint", "check-proof")
	c.MarkFlagsMutuallyExclusive("proof", "since-last", "check-proof")
	c.MarkFlagsMutuallyExclusive("proof", "save-checkpoint", "check-proof")
	return c
}

func (s *session) verify(ctx context.Context, f verifyFlags, args []string) error {
	a, st, err := s.reader(ctx)
	if err != nil {
		return err
	}
	if f.proof != "" {
		id, err := s.runID(ctx, f.proof)
		if err != nil {
			return err
		}
		run, err := st.Run(ctx, id)
		if err != nil {
			return err
		}
		return st.Prove(ctx, run.Seq, s.Out)
	}
	o := store.VerifyOptions{SinceLast: f.sinceLast, Remember: true}
	if len(args) == 1 && f.sinceLast {
		return fault.New(fault.Usage, "--since-last verifies the ledger, not one run").WithHint("leave out RUN or --since-last")
	}
	if len(args) == 1 {
		run, err := st.Run(ctx, args[0])
		if err != nil {
			return err
		}
		o.Run = run.ID
	}
	if f.checkpoint != "" {
		if o.Checkpoint, err = readSmall(f.checkpoint); err != nil {
			return err
		}
	}
	busy := s.startActivity("checking the record")
	o.Progress = busy.count
	rep, err := st.Verify(ctx, o)
	busy.stop()
	if err != nil {
		return err
	}
	asked, err := askWitnesses(ctx, a, st, rep)
	if err != nil {
		return err
	}
	if err := s.printVerified(rep, o, asked); err != nil {
		return err
	}
	if err := cmp.Or(a.Witnesses.CheckHere(ctx, st), witnesses.Disagrees(asked)); err != nil || f.save == "" {
		return err
	}
	note, err := st.Checkpoint(ctx)
	if err != nil {
		return err
	}
	return s.toFile(f.save, func(w io.Writer) error {
		_, err := w.Write(note)
		return err
	})
}

// checkProof checks a proof with only the public key, without a ledger.
func (s *session) checkProof(f verifyFlags) error {
	proof, err := readSmall(f.checkProof)
	if err != nil {
		return err
	}
	key, err := readSmall(f.key)
	if err != nil {
		return err
	}
	at, events, err := ledger.CheckProof(proof, string(key))
	if err != nil {
		return err
	}
	if s.json {
		return s.printJSON(map[string]any{"ok": true, "events": len(events), "size": at.Size, "origin": at.Origin})
	}
	s.printf("%s proof is valid: %s in the log %s of %d events\n", s.paint(green, "✓"),
		counted(len(events), "event"), show(at.Origin), at.Size)
	return nil
}

// askWitnesses compares a ledger that was not altered with the witnesses that are asked over
// HTTP.
func askWitnesses(ctx context.Context, a *app.App, st store.Backend, rep store.VerifyReport) ([]witnesses.Result, error) {
	if !rep.OK {
		return nil, nil
	}
	return a.Witnesses.Ask(ctx, st)
}

// askedWitness is the answer of a witness, for JSON.
type askedWitness struct {
	Name   string `json:"witness"`
	Agrees bool   `json:"agrees"` // false: it did not answer, or has another history
	Size   int64  `json:"events"`
	Error  string `json:"error,omitempty"`
}

func (s *session) printVerified(rep store.VerifyReport, o store.VerifyOptions, asked []witnesses.Result) error {
	if s.json {
		var list []askedWitness
		for _, r := range asked {
			w := askedWitness{Name: r.Name, Agrees: r.Err == nil, Size: r.Size}
			if r.Err != nil {
				w.Error = r.Err.Error()
			}
			list = append(list, w)
		}
		if err := s.printJSON(struct {
			store.VerifyReport

			Witnesses []askedWitness `json:"witnesses,omitempty"`
		}{rep, list}); err != nil {
			return err
		}
	} else if rep.OK {
		s.printUnaltered(rep, o)
		s.printAsked(asked)
	} else {
		for _, p := range rep.Problems {
			s.printf("%s %s %s: %s\n", s.paint(red, "✗"), show(p.Table), show(p.Key), show(p.Message))
		}
		s.complain(fault.New(fault.VerifyFailed, "the ledger was altered: %s", counted(len(rep.Problems), "problem")))
	}
	if !rep.OK {
		return exit(fault.VerifyFailed.Exit())
	}
	return nil
}

// printUnaltered prints the result of a verification that found no problem.
func (s *session) printUnaltered(rep store.VerifyReport, o store.VerifyOptions) {
	what := "the ledger was not altered"
	switch {
	case o.Run != uuid.Nil:
		what = "run " + o.Run.String() + " was not altered"
	case rep.Earlier != nil:
		what = fmt.Sprintf("nothing was altered from event %d on", rep.Earlier.Events+1)
	case rep.Size == 0:
		what = "the ledger is new and empty"
	case rep.Runs == 0:
		what = "the ledger was not altered; it has no runs yet"
	}
	s.printf("%s %s\n", s.paint(green, "✓"), what)
	s.printf("  %s, %s and %s checked; log size %d, root %s, signed up to %d\n",
		counted(rep.Events, "event"), counted(rep.Blobs, "blob"), counted(rep.Runs, "run"), rep.Size, rep.Root, rep.Signed)
	if e := rep.Earlier; e != nil {
		s.printf("  not read now: events 1 to %d, verified before; last verification %s, of the whole ledger %s (%s)\n",
			e.Events, minute(e.At), minute(e.FullAt), counted(e.FullEvents, "event"))
	} else if o.SinceLast {
		s.printf("  everything was read: no earlier verification of at least 256 events is known\n")
	}
	if rep.Reported > 0 {
		s.printf("  reported by agents: %s; Remit decided these calls and did not execute them\n", counted(rep.Reported, "outcome"))
	}
	if rep.Erased > 0 {
		s.printf("  erased: %s\n", counted(rep.Erased, "payload"))
	}
	for _, text := range rep.Rotations {
		s.printf("  %s %s\n", s.paint(yellow, "!"), show(text))
	}
	if rep.Unremembered != "" {
		s.printf("  --since-last cannot go on from here: the result was not kept (%s)\n", show(rep.Unremembered))
	}
}

// printAsked prints which witnesses agree, and which do not answer. One that disagrees is an error.
func (s *session) printAsked(asked []witnesses.Result) {
	for _, r := range asked {
		switch {
		case r.Err == nil:
			s.printf("  witness %s agrees, and has %s\n", show(r.Name), counted(uint64(max(r.Size, 0)), "event"))
		case !errors.Is(r.Err, fault.RolledBack):
			s.printf("  %s witness %s does not confirm this: %s\n", s.paint(yellow, "!"), show(r.Name), show(r.Err.Error()))
		}
	}
}

// minute prints a time to the minute.
func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
