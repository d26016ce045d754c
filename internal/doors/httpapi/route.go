package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/doors/credential"
	"github.com/remitrun/remit/internal/record/telemetry"
	"github.com/remitrun/remit/internal/service/callers"
)

// operation is an operation of the API.
type operation struct {
	id, method, path string
	tag              string
	action           string // of the policies' api section; "": every grant allows it
	summary          string
	text             string // description
	status           int    // of a successful response; 0: 200, or 204 without a body
	errors           []int  // statuses besides the common ones of all operations
	open             bool   // needs no grant
	stream           bool   // the response has no time limit
	raw              int64  // the body is not JSON and has at most this many bytes; 0: JSON
	request, answer  any    // examples
	more             map[int]reply

	several  bool                                                         // one request can have several effects
	makesRun func(body []byte) bool                                       // whether a request begins or queues one run; nil: none does
	addsTo   func(body []byte) uuid.UUID                                  // the run to which a request adds a call; nil: to none
	recall   func(ctx context.Context, run string, call int) (any, error) // gives the answer to a request again, from the record of its run
}

// reply is a further successful response of an operation.
type reply struct {
	text string
	kind string // content type; "": JSON
	body any    // a value of its type
}

// changes reports whether the operation changes something.
func (o *operation) changes() bool {
	return o.method != http.MethodGet && o.action != "policies.read"
}

// asked is part of every operation's input: the caller, and the exchange.
type asked struct {
	who *Caller
	x   *exchange
	r   *http.Request
}

// Resolve implements huma.Resolver.
func (a *asked) Resolve(c huma.Context) []error {
	if own, ok := c.(*humaCall); ok {
		a.who, a.x, a.r = own.x.who, own.x, own.r
	}
	return nil
}

type humaContext huma.Context // renamed, as a field must not have the name of its method

// humaCall is a request while huma handles it.
type humaCall struct {
	humaContext
	x *exchange
	r *http.Request
}

// Header implements huma.Context. It hides Accept: responses are JSON, unless an operation
// reads that header itself.
func (c *humaCall) Header(name string) string {
	if name == "Accept" {
		return ""
	}
	return c.humaContext.Header(name)
}

// Unwrap is for humago.
func (c *humaCall) Unwrap() huma.Context { return c.humaContext }

// route adds an operation.
func route[I, O any](s *Server, op operation, handle func(ctx context.Context, in *I) (*O, error)) {
	h := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Summary: op.summary, Description: op.description(), Tags: []string{op.tag},
		DefaultStatus: op.status, MaxBodyBytes: -1, BodyReadTimeout: -1, Metadata: map[string]any{metaKey: &op},
		Responses: map[string]*huma.Response{}, RejectUnknownQueryParameters: true,
	}
	if !op.open {
		h.Security = []map[string][]string{{"grant": {}}}
	}
	for status, more := range op.more {
		h.Responses[strconv.Itoa(status)] = s.reply(more)
	}
	for _, status := range op.refusals() {
		h.Responses[strconv.Itoa(status)] = s.reply(reply{text: http.StatusText(status), kind: problemType, body: Problem{}})
	}
	s.ops = append(s.ops, &op)
	huma.Register(s.api, h, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, problem(err)
		}
		return out, nil
	})
	s.illustrate(&op)
}

const metaKey = "remit"

// Names of fields are case-sensitive. The library has this setting for the whole program
// only.
var _ = func() bool { huma.ValidateStrictCasing = true; return true }()

// router connects the mux to huma. It implements huma.Adapter.
type router struct{ s *Server }

// ServeHTTP implements huma.Adapter.
func (a router) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.s.ServeHTTP(w, r) }

// Handle implements huma.Adapter.
func (a router) Handle(o *huma.Operation, handler func(huma.Context)) {
	op, ok := o.Metadata[metaKey].(*operation)
	if !ok {
		return // only operations that route added are served
	}
	s := a.s
	s.mux.HandleFunc(op.method+" "+op.path, func(w http.ResponseWriter, r *http.Request) {
		x, ok := w.(*exchange)
		if !ok {
			http.Error(w, "", http.StatusInternalServerError)
			return
		}
		x.op = op
		x.span = s.o.Tracer.Continue(r.Header.Get("Traceparent"), op.method+" "+op.path, telemetry.Server,
			telemetry.Attr{Key: "http.request.method", Value: op.method}, telemetry.Attr{Key: "http.route", Value: op.path})
		if p := s.admit(x, r); p != nil {
			s.fail(x, p)
			return
		}
		leave, p := s.place(x, r)
		if p != nil {
			s.fail(x, p)
			return
		}
		x.place.release = leave
		defer x.place.end()
		body, p := s.body(x, r)
		if p == nil && body != nil {
			p = s.readmit(x, r)
		}
		if p != nil {
			s.fail(x, p)
			return
		}
		s.doOnce(x, r, body, func() {
			r.Body = io.NopCloser(bytes.NewReader(body))
			handler(&humaCall{humaContext: humago.NewContext(o, r, x), x: x, r: r})
		})
	})
}

// admit decides whether a request is allowed.
func (s *Server) admit(x *exchange, r *http.Request) *Problem {
	if x.op.open {
		return nil
	}
	if p := s.recognize(x, r); p != nil {
		return p
	}
	return mayAsk(x)
}

// readmit decides again whether a request is allowed. Its body can arrive long after the header:
// the caller's grant may have been revoked, or the caller's role changed, by then.
func (s *Server) readmit(x *exchange, r *http.Request) *Problem {
	if x.op.open {
		return nil
	}
	now, err := s.o.Gate.Check(r.Context(), x.who)
	if err != nil {
		return unauthenticated(err)
	}
	x.who = now
	return mayAsk(x)
}

// mayAsk decides whether the caller may ask for the operation.
func mayAsk(x *exchange) *Problem {
	if x.op.action == "" {
		return nil
	}
	if err := x.who.May(x.op.action); err != nil {
		return problem(err)
	}
	return nil
}

// recognize authenticates the caller of a request, within the limits on requests.
func (s *Server) recognize(x *exchange, r *http.Request) *Problem {
	c, err := credential.Of(r, s.origin())
	if err == nil {
		var who *Caller
		if who, err = s.o.Gate.Enter(r.Context(), c); err == nil {
			x.who = who
			admission.Admit(r.Context(), who.Person)
			return s.inRate(r.Context(), who)
		}
	}
	p := unauthenticated(err)
	if p.Status == http.StatusUnauthorized && !s.refused.Take(time.Now(), admission.Address(r.RemoteAddr)) {
		p = bad(http.StatusTooManyRequests, fault.LimitReached, "too many requests without a valid grant from this address", "wait a second")
		p.retry = "1"
	}
	return p
}

// mcp serves MCP clients. They present a grant as all clients do: without a valid one,
// nothing is started or recorded for them.
func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	x, ok := w.(*exchange)
	if !ok {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	if p := s.recognize(x, r); p != nil {
		s.fail(x, p)
		return
	}
	s.o.MCP.ServeHTTP(x, r.WithContext(callers.With(r.Context(), x.who)))
}

// witness takes checkpoints of other ledgers. Their signatures authenticate them.
func (s *Server) witness(w http.ResponseWriter, r *http.Request) {
	x, ok := w.(*exchange)
	if !ok {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	if !s.refused.Take(time.Now(), admission.Address(r.RemoteAddr)) {
		p := bad(http.StatusTooManyRequests, fault.LimitReached, "too many checkpoints from this address", "wait a second")
		p.retry = "1"
		s.fail(x, p)
		return
	}
	s.o.Witness.ServeHTTP(x, r)
}

// unauthenticated makes the problem of an invalid grant: 401, unless the service itself
// failed.
func unauthenticated(err error) *Problem {
	code := fault.CodeOf(err)
	p := problem(err)
	if code.OfGrant() || code == fault.GrantUnknown || code == fault.NotDelegable || code == fault.BudgetSpent {
		return p.as(http.StatusUnauthorized)
	}
	return p
}

// inRate refuses a caller if its grant, or its root grant with all that derive from it,
// makes too many requests.
func (s *Server) inRate(ctx context.Context, who *Caller) *Problem {
	wait := time.Second
	if s.rates.Take(time.Now(), grantsOf(who)...) {
		if s.shared == nil {
			return nil
		}
		var err error
		if wait, err = s.shared.Take(ctx, grantsOf(who)...); err != nil {
			return problem(err)
		}
		if wait == 0 {
			return nil
		}
	}
	seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
	p := bad(http.StatusTooManyRequests, fault.LimitReached, "this grant makes too many requests", "wait "+seconds+" s")
	p.retry = seconds
	return p
}

// place takes one of the places for requests that are carried out at once, before the body is read:
// bodies take memory. A large body needs a further place. A request without a place has had no
// effect. Event streams have a limit of their own, see seat.
func (s *Server) place(x *exchange, r *http.Request) (release func(), p *Problem) {
	if x.who == nil || x.op.stream && x.op.method == http.MethodGet {
		return nil, nil
	}
	release, ok := s.places.Take(x.who.Person)
	if ok && x.op.raw > 0 && (r.ContentLength < 0 || r.ContentLength > s.limits.Body) {
		one := release
		var large func()
		if large, ok = s.large.Take(x.who.Person); !ok {
			one()
		}
		release = func() {
			large()
			one()
		}
	}
	if !ok {
		p = bad(http.StatusServiceUnavailable, fault.LimitReached, "too many requests are being carried out", "try again in a second")
		p.retry = "1"
		return nil, p
	}
	return release, nil
}

// body reads a request's whole body, within bounds.
func (s *Server) body(x *exchange, r *http.Request) ([]byte, *Problem) {
	if x.op.method == http.MethodGet || x.op.method == http.MethodDelete {
		if r.ContentLength != 0 {
			return nil, bad(http.StatusBadRequest, fault.Usage, "this operation takes no body", "leave it out")
		}
		return nil, nil
	}
	most := cmp.Or(x.op.raw, s.limits.Body)
	tooLarge := bad(http.StatusRequestEntityTooLarge, fault.Usage, "the body is larger than "+strconv.FormatInt(most, 10)+" bytes", "send less")
	if r.ContentLength > most {
		return nil, tooLarge
	}
	b, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, r.Body, most))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return nil, tooLarge
	case err != nil && strings.Contains(err.Error(), "timeout"):
		return nil, bad(http.StatusRequestTimeout, fault.Usage, "the body did not arrive in time", "")
	case err != nil:
		return nil, bad(http.StatusBadRequest, fault.Usage, "the body cannot be read", "")
	case x.op.raw == 0 && canon.Values(b) > canon.MaxValues:
		return nil, bad(http.StatusRequestEntityTooLarge, fault.Usage, "the body has more than "+strconv.Itoa(canon.MaxValues)+" values", "send fewer")
	}
	return b, nil
}

// encode writes a response. It does not escape for HTML, which would make some texts six
// times as long.
func encode(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// jsonFormat reads and writes bodies. It refuses ambiguous JSON, as with duplicate keys.
func jsonFormat() huma.Format {
	return huma.Format{
		Marshal: encode,
		Unmarshal: func(data []byte, v any) error {
			if _, loose := v.(*any); loose {
				if _, err := canon.Decode(data); err != nil {
					return err
				}
			}
			return json.Unmarshal(data, v)
		},
	}
}

// toProblem gives every error the form of Problem.
func (s *Server) toProblem(c huma.Context, _ string, v any) (any, error) {
	own, ok := c.(*humaCall)
	if !ok {
		return v, nil
	}
	var p *Problem
	switch e := v.(type) {
	case *Problem:
		p = e
	case *huma.ErrorModel:
		p = fromHuma(e)
	default:
		return v, nil
	}
	own.SetHeader("Content-Type", problemType)
	return s.finished(own.x, p), nil
}
