package agent

import (
	"crypto/sha256"
	"fmt"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/tools/model"
)

// A pattern of up to loopPeriod calls with the same results is a loop when it occurs
// loopTimes in a row.
const (
	loopTimes  = 3
	loopPeriod = 4
)

const loopNotice = "[Remit] You have made the same tool calls with the same results three times in a row. " +
	"They will not give anything else. Do something different, or say what keeps you from going on; if you repeat them once more you are stopped."

// looping reports whether the calls of a turn end in a repeated pattern, and whether the
// model had a notice about one before. After a notice, the model must have made another
// call before a pattern counts again.
func looping(turn []entry) (repeats, noticed bool) {
	var seen [][32]byte
	since := 0 // number of calls before the notice
	calls := map[string]model.Call{}
	for i := range turn {
		switch m := &turn[i].Message; {
		case m.Kind == Notice && m.Text == loopNotice:
			noticed, since = true, len(seen)
		case m.Role == model.Assistant:
			clear(calls)
			for _, k := range m.Calls {
				calls[k.ID] = k
			}
		case m.Role == model.ToolRole:
			seen = append(seen, signature(calls[m.CallID], m))
		}
	}
	for p := 1; p <= loopPeriod && !(noticed && since == len(seen)); p++ {
		if repeated(seen, p) {
			return true, noticed
		}
	}
	return false, noticed
}

// repeated reports whether the last calls are a pattern of p calls, loopTimes in a row.
func repeated(seen [][32]byte, p int) bool {
	n := p * loopTimes
	if len(seen) < n {
		return false
	}
	last := seen[len(seen)-n:]
	for i := p; i < n; i++ {
		if last[i] != last[i-p] {
			return false
		}
	}
	return true
}

// signature identifies a call and its result.
func signature(k model.Call, result *Message) [32]byte {
	args := []byte(k.Args)
	if v, err := canon.Decode(args); err == nil {
		if b, err := canon.Marshal(v); err == nil {
			args = b
		}
	}
	h := sha256.New()
	for _, s := range []string{k.Name, string(args), result.Text} {
		fmt.Fprintf(h, "%d:%s,", len(s), s)
	}
	return [32]byte(h.Sum(nil))
}
