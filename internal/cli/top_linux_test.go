package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
	"github.com/remitrun/remit/internal/service/history"
)

// Live runs and waiting questions are shown on a terminal, as one snapshot and as a stream.
func TestTop(t *testing.T) {
	r := newRemit(t)
	args := append(r.asking(`\u001b[2J text`), "--wait")
	ran := make(chan string, 1)
	go func() {
		var out bytes.Buffer
		r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, args...)
		ran <- out.String()
	}()
	mine, await, done := r.onTerminal("", nil, "top", "--every", "100ms")
	await("waiting approvals: 1")
	await("fs.write out/a.txt  medium  user:")
	await("RUNS")
	await("plan")

	from, to := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	streamed := make(chan int, 1)
	go func() {
		streamed <- cli.Main(ctx, []string{"top", "--json", "--follow", "--every", "100ms"}, cli.Streams{In: strings.NewReader(""), Out: to, Err: io.Discard}, []string{"REMIT_HOME=" + r.home, "HOME=" + r.dir}, "test")
		_ = to.Close()
	}()
	lines := bufio.NewScanner(from)
	next := func() (l history.Live) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		must(t, json.Unmarshal(lines.Bytes(), &l))
		return l
	}
	first := next()
	if len(first.Runs) != 1 || len(first.Waiting) != 1 {
		t.Fatalf("%+v", first)
	}
	var out bytes.Buffer
	if status := r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "approvals", "deny", first.Waiting[0].ID.String()); status != 0 {
		t.Fatal(out.String())
	}
	<-ran
	for l := next(); len(l.Runs) > 0; l = next() { // until the end of the run is in the ledger
	}
	await("live runs: 0 · waiting approvals: 0")
	stop()
	for lines.Scan() { // until it has ended
	}
	if status := <-streamed; status != 130 {
		t.Errorf("status %d", status)
	}
	type_(t, mine, "q")
	ends(t, done, 0)
}

func TestTopWithoutATerminal(t *testing.T) {
	r := newRemit(t)
	for want, args := range map[string][]string{
		"live runs: 0":          {"top"},
		`"runs": []`:            {"top", "--json"},
		"--follow needs --json": {"top", "--follow"},
		"too short":             {"top", "--every", "1ms"},
	} {
		var out bytes.Buffer
		status := r.main(cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, args...)
		if works := strings.HasPrefix(want, "live") || strings.HasPrefix(want, `"`); !strings.Contains(out.String(), want) || status != map[bool]int{true: 0, false: 2}[works] {
			t.Errorf("%v: status %d: %s", args, status, out.String())
		}
	}
}
