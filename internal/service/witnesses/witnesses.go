// Package witnesses sends the ledger's checkpoints to the witnesses of the settings, and compares
// the ledger with their copies. Nothing that a call waits for waits for a witness. Start at
// [Witnesses].
package witnesses

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/witness"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/settings"
)

// Folder has, below $REMIT_HOME, the last note that each witness has kept, as NAME.note.
const Folder = "witnesses"

const (
	checkWithin = 2 * time.Second  // for the checks before a command works
	sendWithin  = 15 * time.Second // for one witness
	maxNote     = 64 << 10
)

// Witnesses are those of one $REMIT_HOME.
type Witnesses struct {
	Home     *home.Home
	Notifier *notify.Notifier
	Secret   func(name string) (string, bool) // finds a stored secret

	accepting bool // a person is about to accept what differs

	mu     sync.Mutex
	states map[string]*state // by name; of Run
}

// one is a witness that the settings name.
type one struct {
	settings.Witness

	place witness.Witness
}

// list makes the witnesses of the settings.
func (s *Witnesses) list() ([]one, error) {
	var out []one
	for i, w := range s.Home.Settings.Witnesses {
		made, err := s.open(w)
		if err != nil {
			return nil, fault.Wrap(fault.Usage, err, "%s", fault.Message(err)).In(fmt.Sprintf("witnesses[%d]", i))
		}
		out = append(out, one{w, made})
	}
	return out, nil
}

func (s *Witnesses) open(w settings.Witness) (witness.Witness, error) {
	if w.File != "" {
		return witness.File{Path: w.File}, nil
	}
	do := func(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
		to, err := s.value(w.Name, w.URL)
		if err == nil {
			err = settings.CheckWebhookURL(to)
		}
		if err != nil {
			return 0, nil, err
		}
		return witness.Client(notify.Client(), to, func(h http.Header) error {
			if w.Token == "" {
				return nil
			}
			token, err := s.value(w.Name, w.Token)
			h.Set("Authorization", "Bearer "+token)
			return err
		})(ctx, method, path, body)
	}
	if w.Public == "" {
		return &witness.Notes{Do: do}, nil
	}
	key, err := ledger.ParseCosignKey(w.Public)
	return &witness.Cosigning{Key: key, Do: do, Now: time.Now}, err
}

// value returns a setting, or the stored secret that it names.
func (s *Witnesses) value(witness, text string) (string, error) {
	name, stored := settings.StoredSecret(text)
	if !stored {
		return text, nil
	}
	v, ok := s.Secret(name)
	if !ok {
		return "", fault.New(fault.Usage, "witnesses.%s: no secret %q is stored", witness, name).WithHint("store it with remit secret set %s", name)
	}
	return v, nil
}

// note names the copy of a witness's note.
func (s *Witnesses) note(name string) string {
	return filepath.Join(s.Home.Dir, Folder, name+".note")
}

// readNote reads that copy; nil: there is none.
func (s *Witnesses) readNote(name string) []byte {
	b, err := wholefile.Read(s.note(name), maxNote)
	if err != nil {
		return nil // without it the witness is asked
	}
	return b
}

// CheckHere compares the ledger with the checkpoints that are on this machine: witness files,
// copies of the other witnesses' newest ones, and the newest one seen on this machine. A
// slow file is not waited for.
func (s *Witnesses) CheckHere(ctx context.Context, st store.Backend) error {
	list, err := s.list()
	if err != nil || s.accepting {
		return err
	}
	if err := s.checkFiles(ctx, st, list); err != nil || s.hasSeen(ctx, st) {
		return err
	}
	return rolledBack(s.checkSeen(ctx, st))
}

// checkFiles compares the ledger with the files of witnesses, and the copies of their notes.
func (s *Witnesses) checkFiles(ctx context.Context, st store.Backend, list []one) error {
	if len(list) == 0 {
		return nil
	}
	done := make(chan error, 1)
	go func() { // reading a file of another storage can hang beyond any time limit
		var errs []error
		for _, w := range list {
			errs = append(errs, s.judge(ctx, st, w.Name, s.checkHere(ctx, st, w)))
		}
		done <- errors.Join(errs...)
	}()
	late := time.NewTimer(checkWithin)
	defer late.Stop()
	select {
	case err := <-done:
		return rolledBack(err)
	case <-late.C:
		return nil
	}
}

func (s *Witnesses) checkHere(ctx context.Context, st store.Backend, w one) error {
	if known := s.readNote(w.Name); known != nil {
		if err := differs(witness.Compare(ctx, st, known)); err != nil {
			return err
		}
	}
	if w.File == "" {
		return nil
	}
	return w.place.Check(ctx, st)
}

// rolledBack returns the first error that says so: other errors of witnesses keep nothing
// from working.
func rolledBack(err error) error {
	var e *fault.Error
	if errors.Is(err, fault.RolledBack) && errors.As(err, &e) {
		return e
	}
	return nil
}

// differs drops errors that are no disagreement, as those of a damaged copy.
func differs(err error) error {
	var d *witness.Disagreement
	if errors.As(err, &d) {
		return err
	}
	return nil
}

// judge makes the error of a disagreement that nobody has accepted.
func (s *Witnesses) judge(ctx context.Context, st store.Backend, name string, err error) error {
	var d *witness.Disagreement
	if !errors.As(err, &d) {
		return err
	}
	ok, ferr := accepted(ctx, st, name, d)
	if ferr != nil {
		return ferr
	}
	if ok {
		return errAccepted(name, d)
	}
	what := "was rolled back: an older copy took its place"
	if d.Size <= d.Ledger.Size {
		what = "has another history than the one that was witnessed"
	}
	proof := "the ledger's signature proves it"
	if !d.Signed {
		proof = "this is the witness's word, without a proof"
	}
	if name == Here {
		return fault.Wrap(fault.RolledBack, d, "the ledger %s %s. The newest checkpoint seen here: %s (%s)", d.Ledger.Origin, strings.Replace(what, "witnessed", "seen here", 1), d, proof).
			ForOperator("bring back the newest copy of the ledger; or go on with this one, and lose what it lacks: remit witness accept --here")
	}
	return fault.Wrap(fault.RolledBack, d, "the ledger %s %s. Witness %s: %s (%s)", d.Ledger.Origin, what, name, d, proof).
		ForOperator("bring back the newest copy of the ledger; or go on with this one, and lose what it lacks: remit witness accept %s", name)
}

// CheckAll compares the ledger with all witnesses that can be reached, and gives them the
// newest checkpoint if they agree. Only a disagreement is an error.
func (s *Witnesses) CheckAll(ctx context.Context, st store.Backend) error {
	results, err := s.Send(ctx, st)
	if err != nil {
		return err
	}
	return Disagrees(results)
}

// Result is what became of a checkpoint at one witness.
type Result struct {
	Name string
	Size int64 // of the log that the witness has, as far as it is known
	Err  error
}

// Send gives all witnesses the newest checkpoint, at the same time, and waits for them.
func (s *Witnesses) Send(ctx context.Context, st store.Backend) ([]Result, error) {
	list, err := s.list()
	if err != nil {
		return nil, err
	}
	return s.sendTo(ctx, st, list), nil
}

func (s *Witnesses) sendTo(ctx context.Context, st store.Backend, list []one) []Result {
	out := make([]Result, len(list))
	var wait sync.WaitGroup
	for i, w := range list {
		wait.Go(func() { out[i] = s.send(ctx, st, w) })
	}
	wait.Wait()
	return out
}

// Ask gives the newest checkpoint to the witnesses that are reached over HTTP, which compare it
// with their own, and waits for them. Witness files are compared by CheckHere. An answer with an
// error that is not fault.RolledBack comes from a witness that could not be asked.
func (s *Witnesses) Ask(ctx context.Context, st store.Backend) ([]Result, error) {
	list, err := s.list()
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(w one) bool { return w.File != "" })
	return s.sendTo(ctx, st, list), nil
}

// Disagrees returns the first result that proves another history; nil: there is none.
func Disagrees(results []Result) error {
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	return rolledBack(errors.Join(errs...))
}

// send gives one witness the newest checkpoint, and keeps a copy of what it kept.
func (s *Witnesses) send(ctx context.Context, st store.Backend, w one) Result {
	ctx, stop := context.WithTimeout(ctx, sendWithin)
	defer stop()
	known := s.readNote(w.Name)
	out := Result{Name: w.Name}
	if known != nil {
		if out.Err = s.judge(ctx, st, w.Name, differs(witness.Compare(ctx, st, known))); out.Err != nil && !errors.Is(out.Err, errWasAccepted) {
			return out
		}
	}
	kept, err := deliver(ctx, st, w, known)
	if err == nil && kept != nil {
		err = s.keep(w.Name, kept)
	}
	if out.Err = s.judge(ctx, st, w.Name, err); out.Err == nil {
		if c, err := st.OpenCheckpoint(kept); err == nil {
			out.Size = c.Size
		}
	}
	return out
}

// deliver sends, and waits no longer than until ctx ends: a file of another storage can hang
// beyond any time limit.
func deliver(ctx context.Context, st store.Backend, w one, known []byte) ([]byte, error) {
	type answer struct {
		kept []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		kept, err := w.place.Send(ctx, st, known)
		done <- answer{kept, err}
	}()
	select {
	case a := <-done:
		return a.kept, a.err
	case <-ctx.Done():
		return nil, fault.New(fault.StoreFailed, "the witness did not answer within %s", sendWithin)
	}
}

// keep writes the copy of a witness's newest checkpoint. The time of the file is that of the copy.
func (s *Witnesses) keep(name string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(s.note(name)), 0o700); err != nil {
		return err
	}
	return wholefile.Replace(s.note(name), b)
}
