// Package modelchat holds the built-in tool model.chat, which asks a language model. Its
// calls are decided by the policies' models section, charged in tokens and money, recorded
// and replayed like any other. Start at [New]. The sessions of agents use [ForSession],
// whose calls refer to the conversation instead of repeating it.
package modelchat

import (
	"context"
	_ "embed" // the schemas
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/tools/model"
)

// ID is the tool's ID.
const ID = tool.ID("model.chat")

var (
	//go:embed input.schema.json
	inputSchema []byte
	//go:embed output.schema.json
	outputSchema []byte
)

// Options are the parts of the tool.
type Options struct {
	Registry *model.Registry
	// Secret finds the value of an Endpoint's Key; nil finds none.
	Secret func(key string) (value string, ok bool)
	// Wait is how long a service may send nothing; 0: network.DefaultModelWait.
	Wait time.Duration
}

// Tool is the tool model.chat.
type Tool struct {
	o    Options
	talk Conversation // nil: outside of sessions
}

// New makes the tool. The conversation is in its arguments.
func New(o Options) *Tool { return &Tool{o: o} }

// ForSession makes the tool of one session, with the same specification. Besides
// the conversation itself its arguments may be those of [Refer].
func ForSession(o Options, c Conversation) *Tool { return &Tool{o: o, talk: c} }

// Spec describes the tool.
func (t *Tool) Spec() *tool.Spec {
	return &tool.Spec{
		ID: ID, Title: "Ask a language model", Version: "1", Source: "builtin", Risk: tool.Medium,
		Description: "Asks a language model that the policy allows for the next message of a conversation. Tool calls in the answer are returned, not made.",
		Input:       inputSchema, Output: outputSchema, Effects: tool.EffectSet(tool.FSRead, tool.NetworkHTTP, tool.NetworkDNS),
	}
}

// Prepare returns the model that is asked and, for a scripted model, the reading of its
// file of answers. The model and the conversation are looked up once, after the decision:
// a denied call reveals nothing of them.
func (t *Tool) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	request := sync.OnceValues(func() (*request, error) { return t.read(args) })
	return permit.Prepared{
		Actions: actions(env, args),
		Spends: func() permit.Spending {
			q, err := request()
			if err != nil {
				return permit.Spending{In: 1, Money: 1} // the call fails by itself
			}
			return q.spends()
		},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			if ctx.Err() != nil {
				return tool.Result{}, permit.Ended(ctx)
			}
			q, err := request()
			if err != nil {
				return tool.Result{}, err
			}
			return t.ask(ctx, p, q)
		},
	}, nil
}

func actions(env tool.Env, args tool.Args) []tool.Action {
	id, _ := args["model"].(string)
	canonical, err := model.Canonical(id)
	if err != nil {
		return []tool.Action{{Kind: tool.Model, Unknown: fault.Message(err)}}
	}
	actions := []tool.Action{{Kind: tool.Model, Model: canonical}}
	if provider, name, _ := model.ParseID(canonical); provider == model.Scripted {
		read := tool.Action{Kind: tool.FileRead}
		if read.Path, err = files.Clean(env, name); err != nil {
			read.Unknown = fault.Message(err)
		}
		actions = append(actions, read)
	}
	return actions
}

// ask asks the model. An answer that costs more than was reserved for it is charged and
// returned all the same.
func (t *Tool) ask(ctx context.Context, p permit.Permit, q *request) (tool.Result, error) {
	if err := p.Check(tool.Action{Kind: tool.Model, Model: q.id}); err != nil {
		return tool.Result{}, err
	}
	if err := q.fit(p); err != nil {
		return tool.Result{}, err
	}
	via, err := t.reach(p, q)
	if err != nil {
		return tool.Result{}, err
	}
	said := newTeller(ctx)
	resp, err := q.provider.Chat(ctx, via, q.Request, said.tell)
	said.end()
	if cerr := q.charge(p, &resp, said.bytes, err == nil); err == nil {
		err = cerr
	}
	if resp.Message.Role == "" {
		return tool.Result{}, err
	}
	out, oerr := output(resp)
	if err == nil {
		err = oerr
	}
	return tool.Result{Output: out}, err
}

// reach returns the provider's way out: its service, or its file.
func (t *Tool) reach(p permit.Permit, q *request) (model.Reach, error) {
	via := model.Reach{File: func(name string, most int64) ([]byte, error) {
		if q.provider.Name() != model.Scripted {
			return nil, fault.New(fault.HandleRefused, "the models of %q are not files", q.provider.Name())
		}
		return readAnswers(p, name, most)
	}}
	e := q.provider.Endpoint()
	if e.Base == "" {
		return via, nil
	}
	rt, err := network.NewModelTransport(p, network.ModelService{
		Model: q.id, Base: e.Base, Header: e.Header, Prefix: e.Prefix, Key: e.Key, Wait: t.o.Wait,
	})
	if err != nil {
		return via, err
	}
	rt.Secret = t.o.Secret
	via.HTTP = service{rt, q.provider.Name()}
	return via, nil
}

// readAnswers reads a scripted model's file of at most so many bytes.
func readAnswers(p permit.Permit, name string, most int64) ([]byte, error) {
	f, err := files.New(p).Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(content)) > most {
		return nil, fault.New(fault.ModelUnknown, "%q is larger than %d bytes, the limit for a file of answers", name, most)
	}
	return content, err
}

// service tells of a model's service in the words of models.
type service struct {
	rt   http.RoundTripper
	name string
}

// RoundTrip sends a request.
func (s service) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.rt.RoundTrip(req)
	if err == nil || req.Context().Err() != nil {
		return resp, err
	}
	switch fault.CodeOf(err) {
	case fault.NotFound, fault.ToolFailed:
		return nil, fault.Wrap(fault.ModelFailed, unreached{err}, "the model's service cannot be reached: %s", fault.Message(err)).
			WithHint("is it running, and is its address (models.providers.%s.base_url in config.yaml) right?", s.name)
	case fault.ToolTimeout:
		return nil, fault.Wrap(fault.ModelFailed, err, "the model's service does not answer: %s", fault.Message(err)).
			WithHint("ask again later, or set models.wait in config.yaml")
	}
	return nil, err
}

// unreached is an error of a request that no service has seen.
type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

// Is makes errors.Is(err, model.ErrUnreached) work.
func (u unreached) Is(target error) bool { return target == model.ErrUnreached }
