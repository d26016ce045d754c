package approval

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
)

// Binding identifies everything that an approval of one call covers: the holder, every policy of
// the chain with its environment, the grant where the ledger keeps it, a client's session, the tool as it is now, the
// arguments, and the effects of the call: the same words are another call once a link leads
// elsewhere, or a file that they name has other content. If approvals may cover a session, the question about a running
// command's connection is bound to its [connection] pattern instead of the call.
func Binding(q runner.Question) ([32]byte, error) {
	args, err := canon.Marshal(map[string]any(q.Call.Args))
	if err != nil {
		return [32]byte{}, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be written as JSON")
	}
	h := sha256.New()
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	add([]byte("remit approval 3"))
	add([]byte(q.Run.Grant.Holder()))
	add([]byte(q.Run.Env.Workspace))
	for _, n := range q.Run.Grant.Nodes() {
		if n.Kept {
			add(n.ID[:])
		}
	}
	add(nil)
	for _, r := range q.Run.Grant.Chain() {
		digest := r.Policy().Digest()
		add(digest[:])
	}
	add(nil)
	add(q.Digest[:])
	add([]byte(q.Spec.ID))
	if q.Run.Client != "" {
		add([]byte("session"))
		add(q.Run.ID[:])
	}
	if c, ok := connection(q); ok && q.Terms.Session {
		text, err := json.Marshal(c)
		add([]byte("connection"))
		add(text)
		return [32]byte(h.Sum(nil)), err
	}
	add(args)
	add([]byte(strconv.FormatBool(q.Within)))
	for _, a := range q.Actions {
		add([]byte(a.String()))
		add([]byte(a.Real))
		add([]byte(a.Exe))
		for _, c := range a.Contents {
			add([]byte(c.Path))
			add([]byte(c.State))
		}
		add(nil)
	}
	return [32]byte(h.Sum(nil)), nil
}
