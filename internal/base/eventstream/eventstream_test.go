package eventstream_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/eventstream"
)

type event struct {
	Name, ID, Retry, Data string
	Unfinished            bool
}

func readAll(r io.Reader, most int) (out []event, err error) {
	for in := eventstream.NewReader(r, most); ; {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, event{e.Name, e.ID, e.Retry, string(e.Data), e.Unfinished})
	}
}

func TestReader(t *testing.T) {
	tests := map[string]struct {
		in   string
		want []event
	}{
		"nothing":                              {"", nil},
		"blank lines":                          {"\n\r\n\r\r\n", nil},
		"a comment":                            {": ping\n\n", nil},
		"data":                                 {"data: a\n\n", []event{{Data: "a"}}},
		"no space":                             {"data:a\n\n", []event{{Data: "a"}}},
		"one space alone is removed":           {"data:  a \n\n", []event{{Data: " a "}}},
		"a colon in the value":                 {"data: a: b\n\n", []event{{Data: "a: b"}}},
		"several lines":                        {"data: a\ndata:\ndata\ndata: b\n\n", []event{{Data: "a\n\n\nb"}}},
		"other fields":                         {"x: 1\ndatas: 2\n data: 3\nno colon\ndata: a\n\n", []event{{Data: "a"}}},
		"all fields":                           {"event: e\nid: 7\nretry: 10\ndata: a\n\n", []event{{"e", "7", "10", "a", false}}},
		"an ID alone":                          {"id: 7\n\n", []event{{ID: "7"}}},
		"unusable values":                      {"id: a\x00b\nretry: 1s\ndata: a\n\n", []event{{Data: "a"}}},
		"fields end with their event":          {"event: e\n: c\n\ndata: a\n\n", []event{{Name: "e"}, {Data: "a"}}},
		"a byte order mark":                    {"\xef\xbb\xbfdata: a\n\n", []event{{Data: "a"}}},
		"a byte order mark and nothing":        {"\xef\xbb\xbf", nil},
		"a byte order mark in the middle":      {"data: \xef\xbb\xbfa\n\n\xef\xbb\xbfdata: b\n\n", []event{{Data: "\xef\xbb\xbfa"}}},
		"one byte order mark alone is removed": {"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", nil},
		"CR":                                   {"data: a\rdata: b\r\rdata: c\r\r", []event{{Data: "a\nb"}, {Data: "c"}}},
		"CR LF":                                {"data: a\r\ndata: b\r\n\r\n", []event{{Data: "a\nb"}}},
		"mixed line ends":                      {"data: a\r\ndata: b\n\rdata: c\r\n\n", []event{{Data: "a\nb"}, {Data: "c"}}},
		"no blank line at the end":             {"data: a\n", []event{{Data: "a", Unfinished: true}}},
		"no line end at the end":               {"data: a\n\ndata: b", []event{{Data: "a"}, {Data: "b", Unfinished: true}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for at := range len(tc.in) + 1 { // however the stream is cut into two packets
				in := io.MultiReader(strings.NewReader(tc.in[:at]), strings.NewReader(tc.in[at:]))
				if got, err := readAll(in, 1000); err != nil || !cmp.Equal(got, tc.want) {
					t.Fatalf("cut at %d: got %+v, %v; want %+v", at, got, err, tc.want)
				}
			}
			if got, err := readAll(iotest.OneByteReader(strings.NewReader(tc.in)), 1000); err != nil || !cmp.Equal(got, tc.want) {
				t.Errorf("byte by byte: got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

// Whatever the line ends, the comments and the cuts: the same events are read.
func TestReaderAnySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := func() string { return rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end") }
		noise := func() string {
			return rapid.SampledFrom([]string{"", "", ":", ": ping", "x: y", "x"}).Draw(t, "noise")
		}
		text := rapid.StringMatching(`[a-zß☃{}": ,]{0,12}`)
		var in strings.Builder
		in.WriteString(rapid.SampledFrom([]string{"", "\xef\xbb\xbf"}).Draw(t, "mark"))
		last := ""
		line := func(s string) {
			e := end()
			if last == "\r" && s == "" && e == "\n" {
				e = "\r" // CR and LF would be one line end
			}
			in.WriteString(s + e)
			last = e
		}
		var want []event
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			e := event{Name: rapid.StringMatching(`[a-z]{0,5}`).Draw(t, "name")}
			if e.Name != "" {
				line("event: " + e.Name)
			}
			lines := rapid.SliceOfN(text, 1, 4).Draw(t, "lines")
			for _, l := range lines {
				if n := noise(); n != "" {
					line(n)
				}
				line("data: " + l)
			}
			line("")
			e.Data = strings.Join(lines, "\n")
			want = append(want, e)
		}
		s := in.String()
		var parts []io.Reader
		for len(s) > 0 {
			n := rapid.IntRange(1, len(s)).Draw(t, "packet")
			parts, s = append(parts, strings.NewReader(s[:n])), s[n:]
		}
		if got, err := readAll(io.MultiReader(parts...), 1000); err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%q: got %+v, %v; want %+v", in.String(), got, err, want)
		}
	})
}

// An event is given as soon as its blank line is there, also when that ends with CR.
func TestReaderDoesNotWait(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		in, out := io.Pipe()
		go func() { _, _ = out.Write([]byte("data: a" + end + end)) }()
		if e, err := eventstream.NewReader(in, 100).Next(); err != nil || string(e.Data) != "a" {
			t.Errorf("%q: got %q, %v", end, e.Data, err)
		}
		_ = in.Close()
	}
}

func TestReaderLimit(t *testing.T) {
	if got, err := readAll(strings.NewReader(strings.Repeat("data: 12345\n\n: comment\n\n", 100)), 20); err != nil || len(got) != 100 {
		t.Errorf("got %d events, %v", len(got), err)
	}
	for _, in := range []string{"data: " + strings.Repeat("x", 20), strings.Repeat("data: 1\n", 10) + "\n", strings.Repeat(": 12345\n", 10)} {
		if _, err := readAll(strings.NewReader(in), 20); !errors.Is(err, eventstream.ErrTooLong) {
			t.Errorf("%q: got %v", in, err)
		}
	}
	broken := errors.New("broken")
	if _, err := readAll(io.MultiReader(strings.NewReader("data: a\n\ndata:"), iotest.ErrReader(broken)), 20); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestOpening(t *testing.T) {
	for in, want := range map[string]byte{"{}": '{', " \r\n\t[1]": '[', "\xef\xbb\xbf {": '{', "\xef\xbb\xbfdata: a\n\n": 'd', ": x": ':', "<html>": '<'} {
		r := eventstream.NewReader(iotest.OneByteReader(strings.NewReader(in)), 100)
		got, err := r.Opening()
		if rest, _ := io.ReadAll(r.Rest()); err != nil || got != want || string(rest) != in {
			t.Errorf("%q: got %q, %v, and then %q", in, got, err, rest)
		}
	}
	for _, in := range []string{"", " \n", "\xef\xbb\xbf"} {
		if _, err := eventstream.NewReader(strings.NewReader(in), 100).Opening(); !errors.Is(err, io.EOF) {
			t.Errorf("%q: got %v", in, err)
		}
	}
}
