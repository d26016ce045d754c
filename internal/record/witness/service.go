package witness

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"crypto/sha256"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Service is a witness for the ledgers of others, by the protocol c2sp.org/tlog-witness. It
// keeps the newest checkpoint of each in a file. It implements http.Handler.
type Service struct {
	folder string
	key    *ledger.Cosigner
	logs   map[string][]note.Verifier // by origin
	now    func() time.Time

	mu sync.Mutex // a comparison and the replacement that follows
}

// NewService makes a witness of the ledgers with these public keys. It keeps its state in a
// folder, and signs with a key.
func NewService(folder string, key *ledger.Cosigner, publicKeys []string, now func() time.Time) (*Service, error) {
	s := &Service{folder: folder, key: key, logs: map[string][]note.Verifier{}, now: now}
	for _, text := range publicKeys {
		v, err := note.NewVerifier(text)
		if err != nil {
			return nil, fault.New(fault.Usage, "%q is not a ledger's public key", text).WithHint("it is the content of its keys/ledger.pub")
		}
		s.logs[v.Name()] = append(s.logs[v.Name()], v)
	}
	return s, os.MkdirAll(folder, 0o700)
}

// ServeHTTP implements http.Handler: POST add-checkpoint. The checkpoint's signature identifies the
// caller; nothing else is needed.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAddition))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	status, kind, answer := s.add(body)
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, answer) // the client may have gone
}

const plain = "text/plain; charset=utf-8"

// add answers a request add-checkpoint.
func (s *Service) add(body []byte) (status int, kind, answer string) {
	a, err := parseAddition(body)
	if err != nil {
		return http.StatusBadRequest, plain, "not a request to add a checkpoint\n"
	}
	origin, _, _ := strings.Cut(string(a.note), "\n")
	keys, known := s.logs[origin]
	if !known {
		return http.StatusNotFound, plain, "this witness does not know the log\n"
	}
	n, err := note.Open(a.note, note.VerifierList(keys...))
	if err != nil {
		return http.StatusForbidden, plain, "the checkpoint is not signed by the log\n"
	}
	c, err := ledger.ParseCheckpoint(n.Text)
	if err != nil || c.Origin != origin || a.old > c.Size || a.old == 0 && len(a.proof) > 0 {
		return http.StatusBadRequest, plain, "not a checkpoint that this witness can read\n"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	unlock, err := wholefile.Lock(s.file(origin) + ".lock") // another process may serve the same folder
	if err != nil {
		return http.StatusInternalServerError, plain, "the witness cannot lock its state\n"
	}
	defer unlock()
	has, err := s.has(origin)
	if err != nil {
		return http.StatusInternalServerError, plain, "the witness cannot read its state\n"
	}
	if has.Size != a.old || a.old == c.Size && a.old > 0 && has.Root != c.Root {
		return http.StatusConflict, sizeType, fmt.Sprintf("%d\n", has.Size)
	}
	if a.old > 0 && !extends(a, has, c) {
		return http.StatusUnprocessableEntity, plain, "the proof of consistency does not hold\n"
	}
	line := s.key.Cosign(n.Text, s.now())
	if err := wholefile.Replace(s.file(origin), append(a.note, line...)); err != nil {
		return http.StatusInternalServerError, plain, "the witness cannot keep the checkpoint\n"
	}
	return http.StatusOK, plain, line
}

func extends(a addition, has, c ledger.Checkpoint) bool {
	if a.old == c.Size {
		return len(a.proof) == 0
	}
	return tlog.CheckTree(a.proof, c.Size, c.Root, has.Size, has.Root) == nil
}

// has reads the newest checkpoint of a log; the zero checkpoint if there is none.
func (s *Service) has(origin string) (ledger.Checkpoint, error) {
	b, err := wholefile.Read(s.file(origin), maxAddition)
	if errors.Is(err, fs.ErrNotExist) {
		return ledger.Checkpoint{}, nil
	}
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	n, err := note.Open(b, note.VerifierList(&s.key.CosignKey))
	if err != nil {
		return ledger.Checkpoint{}, err
	}
	return ledger.ParseCheckpoint(n.Text)
}

// file names the state of one log.
func (s *Service) file(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return filepath.Join(s.folder, hex.EncodeToString(sum[:16])+".note")
}
