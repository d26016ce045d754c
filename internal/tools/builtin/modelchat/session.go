package modelchat

import (
	"crypto/sha256"
	"encoding/json"
	"strconv"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/model"
)

// Conversation returns a session's request to its model for so many messages: it is called while
// calls are judged, and must be quick. It must be safe for concurrent use.
type Conversation func(upTo int) (Turn, error)

// Turn is a session's request to its model up to some message, with the digests by which calls
// refer to it.
type Turn struct {
	System   string
	Messages []model.Message // in place of the older ones there may be a summary
	Tools    []model.Tool
	Earlier  int  // as in model.Request: answers that a summary stands for
	Aside    bool // as in model.Request: the session asks for a summary
	Digests  Digests
}

// Digests commit to a conversation.
type Digests struct {
	Messages tool.Digest // as by Extend, from the zero Digest on
	System   tool.Digest // as by DigestOf
	Tools    tool.Digest // as by DigestOf
}

// Extend returns the digest of a conversation with one more message.
func Extend(d tool.Digest, m model.Message) (tool.Digest, error) {
	one, err := DigestOf(m)
	if err != nil {
		return d, err
	}
	return sha256.Sum256(append(d[:], one[:]...)), nil
}

// DigestOf returns the digest of a value as canonical JSON.
func DigestOf(v any) (tool.Digest, error) {
	raw, err := json.Marshal(v)
	var doc any
	if err == nil {
		doc, err = canon.Decode(raw)
	}
	if err == nil {
		raw, err = canon.Marshal(doc)
	}
	if err != nil {
		return tool.Digest{}, fault.Wrap(fault.AgentInvalid, err, "the conversation cannot be written as JSON")
	}
	return sha256.Sum256(raw), nil
}

// Refer makes the arguments of a call that asks a model for the next message of a
// session's conversation. maxTokens 0 leaves the length of the answer open.
func Refer(modelID, session string, upTo int, d Digests, maxTokens int64) tool.Args {
	args := tool.Args{
		"model": modelID, "session": session, "upto": number(int64(upTo)), "digest": d.Messages.String(),
		"system_digest": d.System.String(), "tools_digest": d.Tools.String(),
	}
	if maxTokens > 0 {
		args["max_tokens"] = number(maxTokens)
	}
	return args
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// recall puts the conversation that arguments refer to into a request.
func (t *Tool) recall(q *request, g given) error {
	if t.talk == nil {
		return fault.New(fault.ArgsInvalid, "this caller has no session").In("session").
			WithHint("set messages instead")
	}
	turn, err := t.talk(g.UpTo)
	if err != nil {
		return err
	}
	d := turn.Digests
	for field, same := range map[string]bool{
		"digest": g.Digest == d.Messages.String(), "system_digest": g.SystemDigest == d.System.String(), "tools_digest": g.ToolsDigest == d.Tools.String(),
	} {
		if !same {
			return fault.New(fault.ArgsInvalid, "the digest does not match the session's conversation").In(field)
		}
	}
	q.System, q.Messages, q.Tools, q.Earlier, q.Aside = turn.System, turn.Messages, turn.Tools, turn.Earlier, turn.Aside
	return nil
}
