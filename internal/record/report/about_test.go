package report_test

import (
	"testing"

	"github.com/remitrun/remit/internal/record/report"
)

func TestAbout(t *testing.T) {
	for args, want := range map[string]string{
		`{"cwd":"/w","script":"go test ./..."}`: "go test ./...",
		`{"command":["git","push"],"name":"x"}`: "git push",
		`{"path":"a","content":"b"}`:            "a",
		`{"path":7,"name":"n"}`:                 "n",
		`{"x":"y"}`:                             "",
		`[]`:                                    "",
		``:                                      "",
		`{"path":null,"url":"https://a.example/","script":""}`: "https://a.example/",
	} {
		if got := report.About([]byte(args)); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}
