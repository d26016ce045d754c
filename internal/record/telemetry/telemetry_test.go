package telemetry_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/telemetry"
)

func TestMetricsAreInPrometheusFormat(t *testing.T) {
	m := telemetry.New()
	c := m.Counter("remit_things_total", "Things, \"quoted\" and\nbroken.", "kind", "who")
	c.Add(2, "a", `say "hi"\`+"\n")
	c.Add(1, "b", "\xff")
	c.Add(-5, "b", "\xff") // counters only grow
	g := m.Gauge("remit_open", "Open now.")
	g.Add(3)
	g.Add(-1)
	m.Func("remit_looked_up", "Looked up.", func() float64 { return 1.5 })
	h := m.Histogram("remit_took_seconds", "How long.", "op")
	for _, d := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond + 1, 3 * time.Second, time.Hour} {
		h.Observe(d, "x")
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^[a-z_]+(\{[a-z]+="(\\.|[^"\\])*"(,[a-z]+="(\\.|[^"\\])*")*\})? [0-9.e+-]+$`)
	for l := range strings.Lines(b.String()) {
		if l = strings.TrimSuffix(l, "\n"); !strings.HasPrefix(l, "# ") && !line.MatchString(l) {
			t.Errorf("not in the format: %q", l)
		}
	}
	for _, want := range []string{
		`remit_things_total{kind="a",who="say \"hi\"\\\n"} 2`, "remit_things_total{kind=\"b\",who=\"\uFFFD\"} 1", "remit_open 2", "remit_looked_up 1.5",
		`remit_took_seconds_bucket{op="x",le="0.0005"} 2`, `remit_took_seconds_bucket{op="x",le="0.002"} 3`, `remit_took_seconds_bucket{op="x",le="5"} 4`,
		`remit_took_seconds_bucket{op="x",le="+Inf"} 5`, `remit_took_seconds_count{op="x"} 5`, "# TYPE remit_took_seconds histogram",
		`# HELP remit_things_total Things, "quoted" and\nbroken.`,
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("there is no line %s in\n%s", want, b.String())
		}
	}
}

// Callers cannot make the service hold without end.
func TestSeriesAreBounded(t *testing.T) {
	m := telemetry.New()
	c := m.Counter("x_total", "X.", "n")
	var all sync.WaitGroup
	for k := range 4 {
		all.Go(func() {
			for i := range 2000 {
				c.Add(1, strconv.Itoa(k*2000+i))
			}
		})
	}
	all.Wait()
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	lines, sum := 0, 0
	for s := bufio.NewScanner(&b); s.Scan(); {
		if name, n, ok := strings.Cut(s.Text(), " "); ok && strings.HasPrefix(name, "x_total{") {
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatal(err)
			}
			lines, sum = lines+1, sum+v
		}
	}
	if lines > 2010 || sum != 8000 {
		t.Errorf("%d series that count %d", lines, sum)
	}
}

func TestWhereTracesGo(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		on   bool
		want string
		bad  bool
	}{
		"nothing":      {nil, false, "", false},
		"base":         {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, true, "http://c:4318/v1/traces", false},
		"whole":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://d/x"}, true, "https://d/x", false},
		"switched off": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "TRUE"}, false, "", false},
		"no exporter":  {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}, false, "", false},
		"no URL":       {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, false, "", true},
	} {
		cfg, on, err := telemetry.ConfigFrom(func(k string) (string, bool) { v, ok := c.env[k]; return v, ok })
		if on != c.on || (err != nil) != c.bad || on && cfg.Endpoint != c.want {
			t.Errorf("%s: %+v %v %v", name, cfg, on, err)
		}
	}
}

func TestSpansAreSentAsOTLP(t *testing.T) {
	var mu sync.Mutex
	var got []byte
	var header http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got, _ = io.ReadAll(r.Body)
		header = r.Header
	}))
	defer srv.Close()
	cfg, _, err := telemetry.ConfigFrom(func(k string) (string, bool) {
		v, ok := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": srv.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, other=1"}[k]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	tr := telemetry.NewTracer(cfg)
	root := tr.Continue("garbage", "root", telemetry.Server)
	child := tr.Start(root, "child", telemetry.Client, telemetry.Attr{Key: "s", Value: "x\xff"}, telemetry.Attr{Key: "n", Value: int64(7)}, telemetry.Attr{Key: "empty", Value: ""})
	child.Fail("E8010")
	child.End()
	child.End()
	root.End()
	tr.Close()
	var body struct {
		ResourceSpans []struct {
			Resource   map[string]any `json:"resource"`
			ScopeSpans []struct {
				Spans []map[string]any `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	if err := json.Unmarshal(got, &body); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	spans := body.ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 2 || spans[0]["parentSpanId"] != spans[1]["spanId"] || spans[0]["traceId"] != spans[1]["traceId"] || spans[1]["parentSpanId"] != nil {
		t.Errorf("the spans are %v", spans)
	}
	if spans[0]["status"].(map[string]any)["code"] != 2.0 || len(spans[0]["traceId"].(string)) != 32 || len(spans[0]["attributes"].([]any)) != 2 {
		t.Errorf("the child is %v", spans[0])
	}
	if header.Get("X-Key") != "a b" || header.Get("Other") != "1" || header.Get("Content-Type") != "application/json" {
		t.Errorf("the headers are %v", header)
	}
}

// A collector that is away, or slow, costs spans and nothing else.
func TestACollectorThatIsAwayCostsNothing(t *testing.T) {
	tr := telemetry.NewTracer(telemetry.Config{Endpoint: "http://127.0.0.1:1/v1/traces"})
	began := time.Now()
	for range 10000 {
		tr.Start(nil, "x", telemetry.Internal).End()
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("10,000 spans took %s", took)
	}
	tr.Close()
	if tr.Dropped() < 1 {
		t.Error("no span was dropped")
	}
}

func TestNoTracerDoesNothing(t *testing.T) {
	var tr *telemetry.Tracer
	s := tr.Continue("", "x", telemetry.Server)
	s.Set(telemetry.Attr{Key: "a", Value: "b"})
	s.Fail("x")
	s.Began(time.Now()).End()
	tr.Close()
	var turns *telemetry.Turns
	turns.Enter("a", s)()
	if turns.Of("a") != nil || tr.Dropped() != 0 {
		t.Error("it knows something")
	}
}
