package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says where traces go, in the words of OpenTelemetry's environment
// variables.
type Config struct {
	Endpoint string            // OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or ..._OTLP_ENDPOINT and "/v1/traces"
	Headers  map[string]string // OTEL_EXPORTER_OTLP_HEADERS
	Service  string            // OTEL_SERVICE_NAME; "": "remit"
	Version  string            // of Remit
}

// ConfigFrom reads the variables. It reports false where traces are sent nowhere:
// no endpoint is set, or OTEL_SDK_DISABLED or OTEL_TRACES_EXPORTER says so.
func ConfigFrom(lookup func(string) (string, bool)) (Config, bool, error) {
	get := func(name string) string {
		v, _ := lookup(name)
		return strings.TrimSpace(v)
	}
	c := Config{Service: get("OTEL_SERVICE_NAME")}
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || get("OTEL_TRACES_EXPORTER") == "none" {
		return c, false, nil
	}
	c.Endpoint = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := get("OTEL_EXPORTER_OTLP_ENDPOINT"); c.Endpoint == "" && base != "" {
		c.Endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if c.Endpoint == "" {
		return c, false, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return c, false, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT %q is not an http or https URL", c.Endpoint)
	}
	c.Headers = map[string]string{}
	for pair := range strings.SplitSeq(get("OTEL_EXPORTER_OTLP_HEADERS"), ",") {
		key, value, ok := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(strings.TrimSpace(value)); ok && err == nil {
			c.Headers[strings.TrimSpace(key)] = plain
		}
	}
	return c, true, nil
}

// The bounds of the queue. Spans beyond them are dropped and counted: an unreachable
// collector costs the service nothing.
const (
	maxWaiting = 4096
	batchSize  = 256
	sendEvery  = 2 * time.Second
	sendWithin = 10 * time.Second
)

// Tracer collects spans and sends them as OTLP in JSON. The nil Tracer makes nil
// spans. It must be closed.
type Tracer struct {
	cfg     Config
	client  *http.Client
	waiting chan []byte
	dropped atomic.Int64
	stop    chan struct{}
	once    sync.Once
	done    sync.WaitGroup
}

// NewTracer makes a tracer that sends to cfg.Endpoint.
func NewTracer(cfg Config) *Tracer {
	if cfg.Service == "" {
		cfg.Service = "remit"
	}
	t := &Tracer{cfg: cfg, client: &http.Client{Timeout: sendWithin}, waiting: make(chan []byte, maxWaiting), stop: make(chan struct{})}
	t.done.Go(t.send)
	return t
}

// Dropped is how many spans could not be sent.
func (t *Tracer) Dropped() int64 {
	if t == nil {
		return 0
	}
	return t.dropped.Load()
}

// Close sends the queued spans and stops.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	t.once.Do(func() { close(t.stop) })
	t.done.Wait()
	t.client.CloseIdleConnections()
}

func (t *Tracer) take(span []byte) {
	select {
	case t.waiting <- span:
	default:
		t.dropped.Add(1)
	}
}

func (t *Tracer) send() {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	var batch [][]byte
	flush := func() {
		if len(batch) == 0 {
			return
		}
		if t.post(batch) != nil {
			t.dropped.Add(int64(len(batch)))
		}
		batch = batch[:0]
	}
	for {
		select {
		case s := <-t.waiting:
			if batch = append(batch, s); len(batch) >= batchSize {
				flush()
			}
		case <-tick.C:
			flush()
		case <-t.stop:
			for {
				select {
				case s := <-t.waiting:
					batch = append(batch, s)
					continue
				default:
				}
				flush()
				return
			}
		}
	}
}

func (t *Tracer) post(batch [][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.Endpoint, bytes.NewReader(t.body(batch)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range t.cfg.Headers {
		req.Header.Set(k, v)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // for the connection to be used again
	if res.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("the collector answered %s", res.Status)
	}
	return nil
}

// body is an ExportTraceServiceRequest (opentelemetry-proto, collector/trace/v1) in
// its JSON mapping.
func (t *Tracer) body(batch [][]byte) []byte {
	resource := attributes([]Attr{{"service.name", t.cfg.Service}, {"service.version", t.cfg.Version}})
	head, _ := json.Marshal(map[string]any{"attributes": resource}) // strings always can
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"resourceSpans":[{"resource":%s,"scopeSpans":[{"scope":{"name":"github.com/remitrun/remit"},"schemaUrl":"https://opentelemetry.io/schemas/1.41.0","spans":[`, head)
	for i, s := range batch {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(s)
	}
	b.WriteString(`]}]}]}`)
	return b.Bytes()
}

// encoded is the span in OTLP's JSON: IDs in hexadecimal, times as strings.
func (s *Span) encoded(end time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]any{
		"traceId": hex.EncodeToString(s.trace[:]), "spanId": hex.EncodeToString(s.id[:]), "name": s.name, "kind": int(s.kind),
		"startTimeUnixNano": strconv.FormatInt(s.start.UnixNano(), 10), "endTimeUnixNano": strconv.FormatInt(end.UnixNano(), 10),
		"attributes": attributes(s.attrs),
	}
	if s.parent != [8]byte{} {
		out["parentSpanId"] = hex.EncodeToString(s.parent[:])
	}
	if s.failed != "" {
		out["status"] = map[string]any{"code": 2, "message": s.failed}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return []byte("{}")
	}
	return b
}

func attributes(list []Attr) []map[string]any {
	out := make([]map[string]any, 0, len(list))
	for _, a := range list {
		var v map[string]any
		switch x := a.Value.(type) {
		case string:
			if x == "" {
				continue
			}
			v = map[string]any{"stringValue": strings.ToValidUTF8(x, "\uFFFD")}
		case bool:
			v = map[string]any{"boolValue": x}
		case int64:
			v = map[string]any{"intValue": strconv.FormatInt(x, 10)}
		case float64:
			v = map[string]any{"doubleValue": x}
		default:
			continue
		}
		out = append(out, map[string]any{"key": a.Key, "value": v})
	}
	return out
}
