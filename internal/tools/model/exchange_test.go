package model_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// stub answers each request with one text.
type stub string

func (s stub) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s))), Request: req}, nil
}

// service is a provider of which only the address matters.
type service struct{ model.Provider }

func (service) Endpoint() model.Endpoint { return model.Endpoint{Base: "http://127.0.0.1:1"} }

// list keeps events as "name:data".
type list []string

func (l *list) Begun() bool { return false }

func (l *list) Take(e model.Event) error {
	*l = append(*l, e.Name+":"+string(e.Data))
	if e.EndsStream() {
		return model.ErrEndOfAnswer
	}
	return nil
}

func TestEvents(t *testing.T) {
	tests := map[string]struct {
		stream string
		want   []string
	}{
		"names, comments and other fields":           {": hello\nevent: a\nid: 1\ndata: x\n\ndata:y\n\n", []string{"a:x", ":y"}},
		"line ends of Windows":                       {"event: a\r\ndata: x\r\n\r\n", []string{"a:x"}},
		"data of several lines":                      {"data: x\ndata:  y\n\n", []string{":x\n y"}},
		"an event without data is none":              {"event: a\n\ndata: \n\ndata: x\n\n", []string{":x"}},
		"an unfinished event is none":                {"data: x\n\ndata: y\n", []string{":x"}},
		"an unfinished event with complete JSON":     {"data: x\n\ndata: {\"a\":1}", []string{":x", `:{"a":1}`}},
		"an unfinished event with half of its JSON":  {"data: x\n\ndata: {\"a\":", []string{":x"}},
		"line ends of old":                           {"event: a\rdata: x\r\rdata: [DONE]\r\r", []string{"a:x", ":[DONE]"}},
		"a byte order mark":                          {"\ufeffdata: x\n\n", []string{":x"}},
		"JSON and no stream":                         {"\ufeff\n{\"a\":\n1}", []string{":\n{\"a\":\n1}"}},
		"nothing is read after the end":              {"data: [DONE]\n\ndata: x\n\n", []string{":[DONE]"}},
		"a connection that closes right at the end":  {"data: x\n\ndata: [DONE]", []string{":x", ":[DONE]"}},
		"a page is no stream":                        {"<html>\n</html>\n\n", nil},
		"a longer text than a scanner takes usually": {"data: " + strings.Repeat("x", 1<<20) + "\n\n", []string{":" + strings.Repeat("x", 1<<20)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got list
			x := model.Exchange{Provider: service{}, RT: stub(tt.stream), Path: "/x", Body: 1}
			if err := x.Send(t.Context(), &got); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %.200q (%v), want %.200q", got, err, tt.want)
			}
		})
	}
}

func TestAnExchangeNeedsAWay(t *testing.T) {
	var got list
	err := model.Exchange{Provider: service{}, Path: "/x", Body: 1}.Send(t.Context(), &got)
	if !errors.Is(err, fault.HandleRefused) {
		t.Errorf("got %v, want %v", err, fault.HandleRefused)
	}
}
