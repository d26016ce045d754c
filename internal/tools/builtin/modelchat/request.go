package modelchat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/model"
)

// request is what the arguments of a call ask for.
type request struct {
	model.Request

	id       string // canonical
	provider model.Provider
	limits   model.Limits
}

// given is the arguments as they come.
type given struct {
	model.Request

	Model        string `json:"model"`
	Session      string `json:"session"`
	UpTo         int    `json:"upto"`
	Digest       string `json:"digest"`
	SystemDigest string `json:"system_digest"`
	ToolsDigest  string `json:"tools_digest"`
}

// read reads the arguments, and finds the model and the conversation.
func (t *Tool) read(args tool.Args) (*request, error) {
	raw, err := canon.Marshal(map[string]any(args))
	if err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be written as JSON")
	}
	var g given
	if err := json.Unmarshal(raw, &g); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return nil, fault.New(fault.ArgsInvalid, "unexpected type").In(wrong.Field)
		}
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the arguments cannot be read")
	}
	q := &request{Request: g.Request}
	if q.id, err = model.Canonical(g.Model); err != nil {
		return nil, err
	}
	if q.provider, q.Model, err = t.o.Registry.Find(q.id); err != nil {
		return nil, err
	}
	q.limits = t.o.Registry.Limits(q.id)
	if g.Session != "" {
		if err := t.recall(q, g); err != nil {
			return nil, err
		}
	}
	return q, q.Check()
}

// margin is how many tokens a request may turn out to have, if so many are
// reckoned: program text, and languages with many characters, have more of them.
func margin(reckoned int64) int64 { return reckoned + reckoned/2 + 16 }

// How many tokens an answer may have where the call does not say so and a budget bounds it: as many
// as are known of the model, within reason. Tokens reserved for one answer are not there for others
// that come in at the same time.
const (
	usual   = 8192
	maxWant = 16_384
)

// answer is how many tokens the answer may have.
func (q *request) answer() int64 {
	if q.MaxTokens > 0 {
		return q.MaxTokens
	}
	return min(cmp.Or(q.limits.MaxOutput, usual), maxWant)
}

// spends estimates the most tokens and money that the call needs. The runner reserves as
// much of it as is left.
func (q *request) spends() permit.Spending {
	in := margin(model.EstimateRequest(q.Request))
	return permit.Spending{In: in, Out: q.answer(), Money: q.price(in, q.answer())}
}

// price is the highest possible cost of tokens; 1 where that is not known.
func (q *request) price(in, out int64) int64 {
	if q.provider.Endpoint().Base == "" {
		return 0
	}
	if q.limits.Prices == nil {
		return 1
	}
	p := *q.limits.Prices
	p.Input = max(p.Input, p.CacheRead, p.CacheWrite)
	return p.Of(model.Usage{Input: in, Output: out})
}

// least is the least answer that is worth asking for, in tokens.
const least = 16

// fit bounds the answer by what the budgets leave, and refuses a request that
// cannot be paid or does not fit the model.
func (q *request) fit(p permit.Permit) error {
	reckoned := model.EstimateRequest(q.Request)
	if c := q.limits.Context; c > 0 && reckoned > 2*c {
		return fault.New(fault.ModelContext, "the conversation has about %d tokens, and the model takes %d", reckoned, c).
			WithHint("shorten it, or start a new one")
	}
	tokens, each := p.Spendable()
	money := each.Money
	out := int64(math.MaxInt64)
	if each.In > 0 && margin(reckoned) > each.In {
		return fault.New(fault.BudgetSpent, "the conversation has about %d tokens, and the budgets leave %d to send", margin(reckoned), each.In)
	}
	if each.Out > 0 {
		if out = each.Out; out < least {
			return fault.New(fault.BudgetSpent, "a short answer needs %d tokens, and the budgets leave %d", least, out)
		}
	}
	if tokens > 0 {
		if out = min(out, tokens-margin(reckoned)); out < least {
			return fault.New(fault.BudgetSpent, "the conversation needs about %d tokens with a short answer, and the budgets leave %d", margin(reckoned)+least, tokens)
		}
	}
	if money > 0 && q.provider.Endpoint().Base != "" {
		most, err := q.affordable(money, reckoned)
		if err != nil {
			return err
		}
		out = min(out, most)
	}
	if out < math.MaxInt64 {
		q.MaxTokens = min(out, q.answer())
	}
	return nil
}

// affordable is how many tokens of an answer an amount of money is enough for.
func (q *request) affordable(money, reckoned int64) (int64, error) {
	if q.limits.Prices == nil {
		return 0, fault.New(fault.BudgetSpent, "the grant has a money budget, but the price of %q is unknown", q.id).
			WithHint("set its price in models.prices of config.yaml")
	}
	left := money - q.price(margin(reckoned), 0)
	each := q.limits.Prices.Output
	switch {
	case left >= 0 && each == 0:
		return math.MaxInt64, nil
	case left <= 0:
	case left < math.MaxInt64/1_000_000:
		if n := left * 1_000_000 / each; n >= least {
			return n, nil
		}
	default:
		return math.MaxInt64, nil
	}
	return 0, fault.New(fault.BudgetSpent, "the conversation costs about %d millionths of a dollar with a short answer, and the budgets leave %d", q.price(margin(reckoned), least), money)
}

// charge counts the used tokens. A service that does not say is charged by the bytes that went and
// came; one that failed before it answered, nothing.
func (q *request) charge(p permit.Permit, resp *model.Response, came int, whole bool) error {
	u := &resp.Usage
	if err := u.Check(); err != nil {
		*resp = model.Response{Usage: q.estimate(came)}
		q.spend(p, &resp.Usage)
		return err
	}
	if u.Tokens() == 0 && (whole || came > 0) {
		*u = q.estimate(max(came, resp.Message.Size()))
	}
	q.spend(p, u)
	return nil
}

func (q *request) estimate(came int) model.Usage {
	return model.Usage{Input: model.EstimateRequest(q.Request), Output: model.Estimate(came), Estimated: true}
}

func (q *request) spend(p permit.Permit, u *model.Usage) {
	if q.limits.Prices != nil {
		u.Money = q.limits.Prices.Of(*u)
	}
	p.Spend(permit.Spending{In: u.Tokens() - u.Output, Out: u.Output, Money: u.Money})
}

// maxName bounds the name that a service gives its model, in bytes.
const maxName = 200

// output is an answer as the tool's output.
func output(r model.Response) (map[string]any, error) {
	var b bytes.Buffer
	if len(r.Model) > maxName {
		r.Model = strings.ToValidUTF8(r.Model[:maxName], "") + "…"
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(r)
	var v any
	if err == nil {
		v, err = canon.Decode(b.Bytes())
	}
	if err != nil {
		return nil, fault.Wrap(fault.ModelFailed, err, "the model's answer cannot be written as JSON")
	}
	m, _ := v.(map[string]any) // what an object decodes to
	return m, nil
}

// Answer reads the output of a call.
func Answer(out map[string]any) (model.Response, error) {
	var r model.Response
	b, err := canon.Marshal(out)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, fault.Wrap(fault.ModelFailed, err, "the model's answer cannot be read")
	}
	return r, nil
}
