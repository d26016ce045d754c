package cli

import (
	"context"
	"io"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// verifyFlags are the flags of remit verify.
type verifyFlags struct {
	proof, checkpoint, save string
	checkProof, key         string
}

func (s *session) verifyCmd() *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify [RUN]",
		Short: "Check that the record is what was recorded",
		Long: `Recomputes every hash of the ledger, or of one run's part of it, and checks
the signed checkpoints. Every record that is not what was recorded is named.

A checkpoint that is kept elsewhere also exposes a ledger that was replaced as a
whole: --save-checkpoint FILE signs and writes the present one, --checkpoint FILE
checks that this ledger is a continuation of the one that signed FILE.

--proof RUN prints a proof that the run is in the log. --check-proof FILE with
--key FILE (the ledger's keys/ledger.pub) checks one without any ledger.
`,
		Example: `  remit verify
  remit verify 0199f3c2
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
	fl.StringVar(&f.proof, "proof", "", "print an inclusion proof of this run instead")
	fl.StringVar(&f.checkpoint, "checkpoint", "", "also check that the ledger extends the checkpoint in this file")
	fl.StringVar(&f.save, "save-checkpoint", "", "write a signed checkpoint to this file if all is well")
	fl.StringVar(&f.checkProof, "check-proof", "", "check the proof in this file instead, without a ledger")
	fl.StringVar(&f.key, "key", "", "the public key for --check-proof")
	c.MarkFlagsRequiredTogether("check-proof", "key")
	c.MarkFlagsMutuallyExclusive("proof", "checkpoint", "check-proof")
	c.MarkFlagsMutuallyExclusive("proof", "save-checkpoint", "check-proof")
	return c
}

func (s *session) verify(ctx context.Context, f verifyFlags, args []string) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	st, err := a.Reader(ctx)
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
	var o store.VerifyOptions
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
	rep, err := st.Verify(ctx, o)
	if err != nil {
		return err
	}
	if err := s.printVerified(rep, o); err != nil || f.save == "" {
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

// checkProof checks a proof with nothing but the key: whoever checks need not
// have the ledger.
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
	s.printf("%s %s proven to be in the log %s of %d events\n", s.paint(green, "✓"),
		counted(len(events), "event"), show(at.Origin), at.Size)
	return nil
}

func (s *session) printVerified(rep store.VerifyReport, o store.VerifyOptions) error {
	ok := len(rep.Problems) == 0
	if s.json {
		type problem struct {
			Table string `json:"table"`
			Key   string `json:"key"`
			Seq   uint64 `json:"seq,omitempty"`
			Msg   string `json:"message"`
		}
		problems := []problem{}
		for _, p := range rep.Problems {
			problems = append(problems, problem{p.Table, p.Key, uint64(p.Seq), p.Msg})
		}
		out := map[string]any{
			"ok": ok, "events": rep.Events, "blobs": rep.Blobs, "runs": rep.Runs, "size": rep.Size, "root": rep.Root,
			"signed": rep.Signed, "erased": rep.Erased, "problems": problems,
		}
		if err := s.printJSON(out); err != nil {
			return err
		}
	} else if ok {
		what := "the ledger is what was recorded"
		if o.Run != uuid.Nil {
			what = "run " + o.Run.String() + " is what was recorded"
		}
		switch {
		case o.Run != uuid.Nil || rep.Runs > 0:
		case rep.Size == 0:
			what = "this is a new, empty ledger: nothing has been recorded in it yet"
		default:
			what = "the ledger is what was recorded, and new: no run has been recorded in it yet"
		}
		s.printf("%s %s\n", s.paint(green, "✓"), what)
		s.printf("  %s, %s and %s checked; log of %d, root %s, signed up to %d\n",
			counted(rep.Events, "event"), counted(rep.Blobs, "blob"), counted(rep.Runs, "run"), rep.Size, rep.Root, rep.Signed)
		if rep.Erased > 0 {
			s.printf("  erased: %s\n", counted(rep.Erased, "payload"))
		}
	} else {
		for _, p := range rep.Problems {
			s.printf("%s %s %s: %s\n", s.paint(red, "✗"), show(p.Table), show(p.Key), show(p.Msg))
		}
		s.complain(fault.New(fault.VerifyFailed, "the ledger is not what was recorded: %s", counted(len(rep.Problems), "problem")))
	}
	if !ok {
		return exit(fault.VerifyFailed.Exit())
	}
	return nil
}
