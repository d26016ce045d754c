package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/remitrun/remit/internal/base/eventstream"
	"github.com/remitrun/remit/internal/base/fault"
)

// Exchange is one request to a model's service and the stream of events that answers it.
// The providers use it instead of their vendors' SDKs, which make half of a program and a
// quarter of its start for this one request.
type Exchange struct {
	Provider Provider
	RT       http.RoundTripper // of the call; nil: the service cannot be reached
	Path     string            // below the base of the provider's endpoint
	Header   http.Header       // beside the usual ones; may be nil
	Body     any               // is sent as JSON
}

// Event is a server-sent event.
type Event struct {
	Name string // as "error"; mostly ""
	Data []byte // valid until the next event
	// Whole: the service sent no stream; the data is the complete answer.
	Whole bool
}

// Taker puts an answer together from its events.
type Taker interface {
	// Take takes the next event; after ErrEndOfAnswer no other is read.
	Take(e Event) error
	// Begun reports whether a part of the answer came in.
	Begun() bool
}

// ErrEndOfAnswer is what Take returns for an event that ends the answer.
var ErrEndOfAnswer = errors.New("end of answer")

// lastData is the data of the event that ends streams of OpenAI's API. Some services close the
// connection right after it.
const lastData = "[DONE]"

// EndsStream reports whether an event is the one that says that no other follows.
func (e Event) EndsStream() bool { return string(bytes.TrimSpace(e.Data)) == lastData }

// Decode reads an event's data.
func (e Event) Decode(into any) error {
	if err := json.Unmarshal(e.Data, into); err != nil {
		return fault.Wrap(fault.ModelFailed, err, "the service's answer cannot be read").
			WithHint("check that base_url belongs to a service of this kind")
	}
	return nil
}

// NotAnswer is the error for a service's complete answer that has no message of a model.
func (e Event) NotAnswer() error {
	return fault.New(fault.ModelFailed, "the service's answer has no message of a model: %.200q", e.Data).
		WithHint("check that base_url belongs to a service of this kind")
}

// Refusal is the error that the event tells, by the service's provider.
func (e Event) Refusal(p Provider, begun bool) error {
	return Once(Refusal(Hear(0, nil, string(e.Data)), p), begun)
}

// Send sends the request and gives the events of its answer to a. Its errors are those of
// Provider.Chat. The answer may still be incomplete when it returns nil: a has to know.
func (x Exchange) Send(ctx context.Context, a Taker) error {
	resp, err := x.send(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := events{eventstream.NewReader(resp.Body, maxStream)}
	first := true
	for ; err == nil; first = false {
		var e Event
		if e, err = answer.next(first); err == nil {
			err = a.Take(e)
		} else if !errors.Is(err, io.EOF) {
			err = Failure(ctx, err, a.Begun())
		} else if first {
			err = noEvents(resp.Header.Get("Content-Type"))
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, ErrEndOfAnswer):
		return nil
	}
	return err
}

// send sends the request. A refusal is an error.
func (x Exchange) send(ctx context.Context) (*http.Response, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x.Body); err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the request to the model cannot be written")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.Provider.Endpoint().Base+x.Path, &body)
	if err != nil {
		return nil, Failure(ctx, err, false)
	}
	for name, values := range x.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := bounded{x.RT}.RoundTrip(req)
	if err != nil {
		return nil, Failure(ctx, err, false)
	}
	if resp.StatusCode < 400 {
		return resp, nil
	}
	said, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, Failure(ctx, err, false)
	}
	return nil, Refusal(Hear(resp.StatusCode, resp.Header, string(said)), x.Provider)
}

// events reads the events of an answer.
type events struct{ in *eventstream.Reader }

// next returns the next event that has data, or io.EOF. An answer that is JSON is one event. The
// last event of a stream counts without the blank line after it if its data is complete.
func (s events) next(first bool) (Event, error) {
	if first {
		if c, err := s.in.Opening(); err != nil {
			return Event{}, err
		} else if c == '{' || c == '[' {
			raw, err := io.ReadAll(s.in.Rest()) // the size of an answer is limited
			return Event{Data: bytes.TrimPrefix(raw, []byte("\ufeff")), Whole: true}, err
		}
	}
	for {
		e, err := s.in.Next()
		if err != nil {
			return Event{}, err
		}
		out := Event{Name: e.Name, Data: e.Data}
		switch {
		case len(bytes.TrimSpace(e.Data)) == 0:
		case e.Unfinished && !out.EndsStream() && !json.Valid(e.Data):
			return Event{}, io.EOF
		default:
			return out, nil
		}
	}
}

// noEvents is the error for an answer without any event.
func noEvents(contentType string) error {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || kind == "text/event-stream" || kind == "application/json" {
		return io.EOF
	}
	return fault.New(fault.ModelFailed, "the service answered with %.80q, not with a stream of events", kind).
		WithHint("check that base_url belongs to a service of this kind")
}
