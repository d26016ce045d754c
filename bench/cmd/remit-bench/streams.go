package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/bench/stat"
)

const (
	streamCalls  = 500
	streamRounds = 5
	streamBar    = 1.3 // a call beside 300 readers, over a call beside none
	streamFloor  = 3   // CPU time beside the bare server's, which reads no ledger and encodes nothing
)

// streamCounts are how many streams are open, in turns.
var streamCounts = []int{0, 60, 300}

const servicePolicy = `version: 1
name: service
api: {allow: ["*"]}
tools: {allow: ["time.now", "fs.write"]}
files: {write: {allow: ["out/**"]}}
`

// service is a program that serves calls and event streams.
type service struct {
	*bench
	base, token string
	process     *os.Process
}

// serve starts remit serve in a folder.
func (b *bench) serve(ctx context.Context, args ...string) (*service, error) {
	dir, err := os.MkdirTemp(b.dir, "service-")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(servicePolicy), 0o644); err != nil {
		return nil, err
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(dir, "home")
	cmd := exec.CommandContext(ctx, b.remit, append([]string{"serve", "--listen", address, "-p", "policy.yaml", "--hide-token"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + home, "REMIT_HOME=" + home, "PATH=/usr/bin:/bin"}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }() // it is killed when ctx ends
	if err := waitFor(ctx, address); err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(home, "keys", "admin.token"))
	for end := time.Now().Add(10 * time.Second); errors.Is(err, os.ErrNotExist) && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		token, err = os.ReadFile(filepath.Join(home, "keys", "admin.token"))
	}
	return &service{b, "http://" + address, string(bytes.TrimSpace(token)), cmd.Process}, err
}

// do makes a request and reads the whole response.
func (s *service) do(method, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(s.ctx, method, s.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Transport: bearer(s.token)}).Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, res.Status, clip(text))
	}
	return text, err
}

// newest gives the position of the newest event.
func (s *service) newest() (int, error) {
	text, err := s.do(http.MethodGet, "/v1/audit?limit=1", "")
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct{ Seq int }
	}
	if err := json.Unmarshal(text, &list); err != nil || len(list.Items) != 1 {
		return 0, fmt.Errorf("the newest event: %s, %w", clip(text), err)
	}
	return list.Items[0].Seq, nil
}

// text gives the events after one position up to another one, as a stream sends them.
func (s *service) text(after, last int) ([]byte, error) {
	body, err := open(s.ctx, s.base, s.token, after)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var text []byte
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if len(text) > 0 || bytes.HasPrefix(line, []byte("id: ")) {
			text = append(text, line...)
		}
		if len(line) == 1 && bytes.Contains(text, fmt.Appendf(nil, "id: %d\n", last)) {
			return text, nil
		}
	}
}

// measured is how long the calls of one round took, and the CPU time of the service for them.
type measured struct{ took, cpu time.Duration }

// beside makes calls while a number of streams are read, until all of them have every event.
func (s *service) beside(streams int, work func() (last int, err error)) (m measured, err error) {
	readers, err := s.read(streams)
	if err != nil {
		return m, err
	}
	before, err := (&mcpClient{process: s.process}).cpu()
	if err != nil {
		return m, err
	}
	var last int
	m.took = stat.Time(func() { last, err = work() })
	if err := errors.Join(err, readers.until(last)); err != nil {
		return m, err
	}
	after, err := (&mcpClient{process: s.process}).cpu()
	m.cpu = after - before
	return m, err
}

func (s *service) calls() (int, error) {
	for range streamCalls {
		if _, err := s.do(http.MethodPost, "/v1/tools/time.now/invoke", "{}"); err != nil {
			return 0, err
		}
	}
	return s.newest()
}

// streams measures calls while many clients follow the record.
func (b *bench) streams() error { return b.followed("SQLite") }

// followed measures calls while many clients follow the record, beside the same calls with no
// such client, and beside a bare server that writes the same bytes to as many streams.
func (b *bench) followed(on string, args ...string) error {
	ctx, stop := context.WithCancel(b.ctx)
	defer stop()
	s, err := b.serve(ctx, args...)
	if err != nil {
		return err
	}
	got := map[int][]measured{}
	var text []byte
	for round := range streamRounds + 1 {
		for _, n := range streamCounts {
			after, err := s.newest()
			if err != nil {
				return err
			}
			m, err := s.beside(n, s.calls)
			if err != nil {
				return fmt.Errorf("%d streams: %w", n, err)
			}
			if round > 0 { // the first warms up
				got[n] = append(got[n], m)
			}
			last, err := s.newest()
			if err == nil {
				text, err = s.text(after, last)
			}
			if err != nil {
				return err
			}
		}
	}
	took := func(n int) time.Duration { return median(got[n], func(m measured) time.Duration { return m.took }) }
	cpu := func(n int) time.Duration { return median(got[n], func(m measured) time.Duration { return m.cpu }) }
	none := took(0)
	for _, n := range streamCounts[1:] {
		x := float64(took(n)) / float64(none)
		s.table.add(fmt.Sprintf("%d calls over HTTP on %s while %d clients follow the record, beside none", streamCalls, on, n), fmt.Sprintf("≤ %.1f ×", streamBar),
			fmt.Sprintf("%.2f × (%s beside %s)", x, ms(took(n)), ms(none)), x <= streamBar)
	}
	most := streamCounts[len(streamCounts)-1]
	bare, floor, err := s.bareStreams(most, text, int(took(most)/(100*time.Millisecond)))
	if err != nil {
		return err
	}
	s.table.note(fmt.Sprintf("the same while %d clients follow a bare server that writes the same bytes", most), fmt.Sprintf("%.2f ×", floor))
	added := cpu(most) - cpu(0)
	x := float64(added) / float64(bare)
	s.table.add(fmt.Sprintf("CPU time that the service takes for %d such clients, beside a bare server that writes the same bytes to as many", most), fmt.Sprintf("≤ %d ×", streamFloor),
		fmt.Sprintf("%.1f × (%s beside %s)", x, ms(added), ms(bare)), x <= streamFloor)
	return nil
}

func median(all []measured, of func(measured) time.Duration) time.Duration {
	var values []time.Duration
	for _, m := range all {
		values = append(values, of(m))
	}
	return stat.Median(values)
}

// streamReaders is a process that reads streams: the first word is the base URL, then the
// token and the number of streams. It says when all are open. It is told the last event's position, and
// ends when each stream has it.
const streamReaders = "REMIT_BENCH_READERS"

type readers struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// read opens streams in a process of their own.
func (s *service) read(streams int) (*readers, error) {
	cmd, err := s.self(streamReaders + "=" + s.base + " " + s.token + " " + strconv.Itoa(streams))
	if err != nil {
		return nil, err
	}
	r := &readers{cmd: cmd}
	if r.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	_, err = r.out.ReadString('\n')
	return r, err
}

// until waits until each stream has an event.
func (r *readers) until(last int) error {
	_, err := fmt.Fprintln(r.in, last)
	return errors.Join(err, r.in.Close(), r.cmd.Wait())
}

// self starts this program as another one.
func (b *bench) self(what string) (*exec.Cmd, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(b.ctx, own)
	cmd.Env, cmd.Stderr = append(os.Environ(), what), os.Stderr
	return cmd, nil
}

// open opens an event stream; after is the last event that was seen, -1: only new ones come.
func open(ctx context.Context, base, token string, after int) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/events", http.NoBody)
	if err != nil {
		return nil, err
	}
	if after >= 0 {
		r.Header.Set("Last-Event-ID", strconv.Itoa(after))
	}
	res, err := (&http.Client{Transport: bearer(token)}).Do(r)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("a stream: %s", res.Status)
	}
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// readStreams is the process of the readers.
func readStreams(what string) error {
	f := strings.Fields(what)
	n, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	seen, ends := make([]atomic.Int64, n), make(chan error, n)
	var opened sync.WaitGroup
	for i := range n {
		opened.Add(1)
		go func() {
			body, err := open(context.Background(), f[0], f[1], -1)
			opened.Done()
			if err == nil {
				err = note(body, &seen[i])
			}
			ends <- err
		}()
	}
	opened.Wait()
	fmt.Println("open")
	var last int64
	if _, err := fmt.Scan(&last); err != nil {
		return err
	}
	for i := range n {
		for seen[i].Load() < last {
			select {
			case err := <-ends:
				return fmt.Errorf("a stream ended before event %d: %w", last, err)
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

// note reads a stream, and notes the position of the newest event.
func note(body io.ReadCloser, seen *atomic.Int64) error {
	defer body.Close()
	const most = 32 // bytes of a line with a position
	buf := make([]byte, 64<<10)
	for kept := 0; ; {
		n, err := body.Read(buf[kept:])
		if err != nil {
			return err
		}
		text := buf[:kept+n]
		if end := bytes.LastIndex(text, []byte("\nevent: ")); end >= 0 {
			start := bytes.LastIndex(text[:end], []byte("id: "))
			if at, err := strconv.ParseInt(string(text[max(0, start)+4:end]), 10, 64); start >= 0 && err == nil {
				seen.Store(at)
			}
		}
		kept = copy(buf, text[max(0, len(text)-most):])
	}
}

// streamBare is a process that serves event streams at an address and writes to all of them a text,
// when that is posted, in a number of parts.
const streamBare = "REMIT_BENCH_STREAMS"

// bareStreams gives the CPU time of a bare server that writes a text to streams in parts, and how
// long calls to the service take meanwhile, beside calls without it.
func (s *service) bareStreams(streams int, text []byte, parts int) (cpu time.Duration, ratio float64, err error) {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	address, err := freeAddress(ctx)
	if err != nil {
		return 0, 0, err
	}
	cmd, err := s.self(streamBare + "=" + address)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if err := waitFor(ctx, address); err != nil {
		return 0, 0, err
	}
	at := bytes.LastIndex(text, []byte("id: "))
	var last int
	if _, err := fmt.Sscanf(string(text[at:]), "id: %d", &last); err != nil {
		return 0, 0, err
	}
	bare := &service{s.bench, "http://" + address, "none", cmd.Process}
	var with, without, cpus []time.Duration
	for range streamRounds {
		m, err := bare.beside(streams, func() (int, error) {
			posted := make(chan error, 1)
			go func() {
				_, err := bare.do(http.MethodPost, "/?parts="+strconv.Itoa(parts), string(text))
				posted <- err
			}()
			var err error
			with = append(with, stat.Time(func() { _, err = s.calls() }))
			return last, errors.Join(err, <-posted)
		})
		if err != nil {
			return 0, 0, err
		}
		cpus = append(cpus, m.cpu)
		if m, err = s.beside(0, s.calls); err != nil {
			return 0, 0, err
		}
		without = append(without, m.took)
	}
	return stat.Median(cpus), float64(stat.Median(with)) / float64(stat.Median(without)), nil
}

// serveBare is the process of the bare server. It gathers events as long as the service does.
func serveBare(address string) error {
	var mu sync.Mutex
	streams := map[chan []byte]bool{}
	http.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		parts := make(chan []byte, 1024)
		mu.Lock()
		streams[parts] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		out := http.NewResponseController(w)
		_ = out.Flush()
		for {
			select {
			case <-r.Context().Done():
				mu.Lock()
				delete(streams, parts)
				mu.Unlock()
				return
			case text := <-parts:
				_, _ = w.Write(text)
				_ = out.Flush() // a client that has gone ends the context
			}
		}
	})
	http.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		n, _ := strconv.Atoi(r.FormValue("parts"))
		events := bytes.SplitAfter(text, []byte("\n\n"))
		for i := range n {
			part := bytes.Join(events[i*len(events)/n:(i+1)*len(events)/n], nil)
			mu.Lock()
			for to := range streams {
				to <- part
			}
			mu.Unlock()
			time.Sleep(100 * time.Millisecond)
		}
	})
	return http.ListenAndServe(address, nil)
}
