package agent

import (
	"crypto/sha256"
	"fmt"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/tools/model"
)

// How often the same calls with the same results are a loop, and how many calls
// may make up the pattern that is repeated.
const (
	loopTimes  = 3
	loopPeriod = 4
)

const loopNotice = "[Remit] You have made the same tool calls with the same results three times in a row. " +
	"They will not give anything else. Do something different, or say what keeps you from going on; if you repeat them once more you are stopped."

// looping reports whether the calls of a turn end in a pattern that was repeated
// with the same results, and whether the model was told of one before. What it was
// told of counts only once it has made another call.
func looping(turn []entry) (repeats, told bool) {
	var seen [][32]byte
	since := 0 // calls when it was told
	calls := map[string]model.Call{}
	for i := range turn {
		switch m := &turn[i].Message; {
		case m.Kind == Notice && m.Text == loopNotice:
			told, since = true, len(seen)
		case m.Role == model.Assistant:
			clear(calls)
			for _, k := range m.Calls {
				calls[k.ID] = k
			}
		case m.Role == model.ToolRole:
			seen = append(seen, signature(calls[m.CallID], m))
		}
	}
	for p := 1; p <= loopPeriod && !(told && since == len(seen)); p++ {
		if repeated(seen, p) {
			return true, told
		}
	}
	return false, told
}

// repeated reports whether the last calls are one pattern of p calls, several times.
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
