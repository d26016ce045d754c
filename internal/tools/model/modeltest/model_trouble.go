package modeltest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// refuses answers with a status.
func refuses(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// checkTrouble lets the service fail in every way.
func checkTrouble(t *testing.T, c Case) {
	const said = `{"type":"error","error":{"type":"some_error","message":"something is wrong here"}}`
	tests := map[string]struct {
		answer http.HandlerFunc
		want   fault.Code
		asked  int64 // how often; 0: once, -1: as often as it likes
	}{
		"the key is refused":         {refuses(401, said), fault.ModelKey, 0},
		"the key may not":            {refuses(403, said), fault.ModelKey, 0},
		"nothing is there":           {refuses(404, said), fault.ModelUnknown, 0},
		"a request that is refused":  {refuses(400, said), fault.ModelFailed, 0},
		"it wants to be paid":        {refuses(402, said), fault.ModelBusy, 0},
		"a request that is too big":  {refuses(413, said), fault.ModelContext, 0},
		"a conversation too long":    {refuses(400, c.TooLong), fault.ModelContext, 0},
		"too many requests":          {refuses(429, said), fault.ModelBusy, 4},
		"an error of the service":    {refuses(500, said), fault.ModelFailed, 4},
		"a gateway's error":          {refuses(502, "<html>bad gateway</html>"), fault.ModelFailed, 4},
		"overloaded":                 {refuses(529, said), fault.ModelBusy, 4},
		"not available":              {refuses(503, ""), fault.ModelBusy, 4},
		"it wants to rest for long":  {refuses(429, said, "Retry-After", "3600"), fault.ModelBusy, 0},
		"a redirect":                 {refuses(307, "", "Location", "http://127.0.0.1:1/elsewhere"), fault.ModelFailed, 0},
		"nothing":                    {refuses(200, ""), fault.ModelFailed, 4},
		"a page":                     {refuses(200, "<html>welcome</html>"), fault.ModelFailed, -1},
		"JSON and no stream":         {refuses(200, `{"message":"hello"}`), fault.ModelFailed, -1},
		"a stream of nonsense":       {stream([]byte("event: message_start\ndata: {nonsense\n\n"), 7), fault.ModelFailed, 0},
		"a stream of another kind":   {stream([]byte("event: x\ndata: []\n\n"), 7), fault.ModelFailed, -1},
		"overloaded, in the stream":  {stream([]byte(c.Overloaded), 9), fault.ModelBusy, 4},
		"a torn connection":          {torn(nil, true), fault.ModelFailed, 4},
		"an error that is very long": {refuses(400, strings.Repeat("x", 3<<20)), fault.ModelFailed, 0},
	}
	s := newModelService(t)
	p, via := c.Provider(t, s.URL, true, atOnce)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s.says(tt.answer)
			r, err := p.Chat(t.Context(), via, c.hello(), nil)
			checkFault(t, r, err, tt.want)
			if got := s.asked.Load(); tt.asked >= 0 && got != max(tt.asked, 1) {
				t.Errorf("it was asked %d times, want %d", got, max(tt.asked, 1))
			}
		})
	}
	t.Run("it is asked again until it answers", func(t *testing.T) { checkAgain(t, c) })
	t.Run("what is begun is not asked for again", func(t *testing.T) {
		for want, h := range map[fault.Code]http.HandlerFunc{
			fault.ModelFailed: torn([]byte(c.Endless+c.Piece), true), fault.ModelBusy: stream([]byte(c.Endless+c.Piece+c.Overloaded), 100),
		} {
			s.says(h)
			r, err := p.Chat(t.Context(), via, c.hello(), nil)
			checkFault(t, r, err, want)
			if n := s.asked.Load(); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		}
	})
}

// checkFault looks at an error: its code, that nothing else is given, that it tells
// the way out and no key.
func checkFault(t *testing.T, r model.Response, err error, want fault.Code) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	var coded *fault.Error
	if !errors.As(err, &coded) || coded.Hint == "" || len(coded.Error()) > 2000 {
		t.Errorf("%.2100v tells no way out, or tells too much", err)
	}
	if strings.Contains(fmt.Sprintf("%+v", err), KeyValue) {
		t.Errorf("%v tells the key", err)
	}
	if r.Message.Role != "" || r.Message.Text != "" || r.Stop != "" {
		t.Errorf("a part of an answer came with the error: %+v", r)
	}
}

// checkAgain lets a service fail at first.
func checkAgain(t *testing.T, c Case) {
	s := newModelService(t)
	var waited []time.Duration
	p, via := c.Provider(t, s.URL, true, func(ctx context.Context, d time.Duration) error {
		waited = append(waited, d)
		return ctx.Err()
	})
	x := c.withText(t)
	var n atomic.Int64
	s.says(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			refuses(429, "{}", "Retry-After", "7")(w, r)
		case 2:
			refuses(500, "{}")(w, r)
		default:
			stream(x.Body, len(x.Body))(w, r)
		}
	})
	r, err := p.Chat(t.Context(), via, c.hello(), nil)
	if d := x.Want.diff(r, err); d != "" {
		t.Fatal(d)
	}
	if len(waited) != 2 || waited[0] < 7*time.Second || waited[1] <= 0 || waited[1] > time.Minute {
		t.Errorf("waited %v", waited)
	}
	s.says(refuses(503, "{}"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Chat(ctx, via, c.hello(), nil); err == nil || s.asked.Load() > 2 {
		t.Errorf("got %v after %d requests, with no time to wait", err, s.asked.Load())
	}
}

// checkWay looks at how the service is reached.
func checkWay(t *testing.T, c Case) {
	x := c.withText(t)
	t.Run("nothing is there", func(t *testing.T) {
		s := newModelService(t)
		s.Close()
		p, via := c.Provider(t, s.URL, true, atOnce)
		r, err := p.Chat(t.Context(), via, c.hello(), nil)
		checkFault(t, r, err, fault.ModelFailed)
	})
	t.Run("there is no way", func(t *testing.T) {
		p, _ := c.Provider(t, "http://127.0.0.1:1", true, atOnce)
		if _, err := p.Chat(t.Context(), model.Reach{}, c.hello(), nil); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("got %v, want fault.HandleRefused", err)
		}
	})
	t.Run("the key is sent by the way, and missed there", func(t *testing.T) {
		s := newModelService(t)
		s.says(stream(x.Body, len(x.Body)))
		p, via := c.Provider(t, s.URL, true, atOnce)
		if d := x.Want.diff(p.Chat(t.Context(), via, c.hello(), nil)); d != "" {
			t.Fatal(d)
		}
		if _, ok := s.keys.Load(p.Endpoint().Prefix + KeyValue); !ok {
			t.Error("the service was not sent the key")
		}
		s.says(stream(x.Body, len(x.Body)))
		p, via = c.Provider(t, s.URL, false, atOnce)
		r, err := p.Chat(t.Context(), via, c.hello(), nil)
		checkFault(t, r, err, fault.ModelKey)
		if s.asked.Load() != 0 {
			t.Error("the service was asked all the same")
		}
	})
	t.Run("many at once", func(t *testing.T) {
		s := newModelService(t)
		s.says(stream(x.Body, 100))
		p, via := c.Provider(t, s.URL, true, atOnce)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				r, err := p.Chat(t.Context(), via, c.hello(), func(model.Delta) {})
				if d := x.Want.diff(r, err); d != "" {
					t.Error(d)
				}
			})
		}
		wg.Wait()
	})
	t.Run("megabytes are cut off", func(t *testing.T) { checkMegabytes(t, c) })
	t.Run("it is cancelled", func(t *testing.T) { checkCancel(t, c) })
}

// checkMegabytes lets an answer go on for ever.
func checkMegabytes(t *testing.T, c Case) {
	s := newModelService(t)
	var sent atomic.Int64
	many := []byte(strings.Repeat(c.Piece, 64<<10/len(c.Piece)+1))
	s.says(func(w http.ResponseWriter, r *http.Request) {
		stream([]byte(c.Endless), 1<<20)(w, r)
		for r.Context().Err() == nil {
			n, err := w.Write(many)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	p, via := c.Provider(t, s.URL, true, atOnce)
	told := 0
	r, err := p.Chat(t.Context(), via, c.hello(), func(d model.Delta) { told += len(d.Text) })
	checkFault(t, r, err, fault.ModelFailed)
	if told > 2*model.MaxAnswer || sent.Load() > 512<<20 {
		t.Errorf("%d bytes were taken of %d", told, sent.Load())
	}
}

// checkCancel cancels in the middle of an answer.
func checkCancel(t *testing.T, c Case) {
	s := newModelService(t)
	gone := make(chan struct{})
	s.says(func(w http.ResponseWriter, r *http.Request) {
		stream([]byte(c.Endless+c.Piece), 1<<20)(w, r)
		<-r.Context().Done()
		close(gone)
	})
	p, via := c.Provider(t, s.URL, true, atOnce)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := p.Chat(ctx, via, c.hello(), func(model.Delta) { cancel() })
	if !errors.Is(err, context.Canceled) && !errors.Is(err, fault.ToolCancelled) || r.Message.Role != "" {
		t.Errorf("got %v and %+v", err, r.Message)
	}
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Error("the service was not told")
	}
}
