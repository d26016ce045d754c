// Package telemetry measures the service for operators: metrics in Prometheus' text
// format, and traces that are sent by OTLP over HTTP. It is not a record; the ledger
// is. Start at [New] and [NewTracer].
//
// The formats are written here and not by the official libraries, which load
// hundreds of packages and their registries whenever the program starts, also for
// commands that measure nothing.
package telemetry

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Metrics are the measurements of one service. It is safe for concurrent use. New
// makes one.
type Metrics struct {
	mu       sync.Mutex
	families map[string]*family
}

// maxSeries bounds the label values of one metric: further values count under
// "other", so that no caller can make the service's memory grow without bound.
const maxSeries = 2000

type family struct {
	name, help, kind string
	labels           []string
	bounds           []float64 // of a histogram, in seconds

	mu     sync.RWMutex
	series map[string]*series
	read   func() map[string]float64 // of a gauge that is looked up: by the value of its one label, or ""
}

type series struct {
	values  []string
	count   atomic.Int64
	sum     atomic.Int64 // of a histogram, in nanoseconds
	buckets []atomic.Int64
}

// New makes an empty set of measurements.
func New() *Metrics { return &Metrics{families: map[string]*family{}} }

func (m *Metrics) add(f *family) *family {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.families[f.name]; have != nil {
		return have
	}
	f.series = map[string]*series{}
	m.families[f.name] = f
	return f
}

// Counter counts events by the values of labels.
type Counter struct{ f *family }

// Counter makes a counter. Names are as Prometheus wants them, ending in "_total".
func (m *Metrics) Counter(name, help string, labels ...string) Counter {
	return Counter{m.add(&family{name: name, help: help, kind: "counter", labels: labels})}
}

// Add counts n more. There is a value for each label.
func (c Counter) Add(n int64, values ...string) {
	if n > 0 {
		c.f.seriesOf(values).count.Add(n)
	}
}

// Gauge is a number that goes up and down.
type Gauge struct{ f *family }

// Gauge makes a gauge.
func (m *Metrics) Gauge(name, help string, labels ...string) Gauge {
	return Gauge{m.add(&family{name: name, help: help, kind: "gauge", labels: labels})}
}

// Add changes the gauge by n.
func (g Gauge) Add(n int64, values ...string) { g.f.seriesOf(values).count.Add(n) }

// Func makes a gauge whose number is looked up when it is asked for.
func (m *Metrics) Func(name, help string, read func() float64) {
	m.FuncBy(name, help, "", func() map[string]float64 { return map[string]float64{"": read()} })
}

// FuncBy makes a gauge whose numbers are looked up when they are asked for, by the value of a
// label; "" is no label. A number that is not known is left out.
func (m *Metrics) FuncBy(name, help, label string, read func() map[string]float64) {
	f := &family{name: name, help: help, kind: "gauge", read: read}
	if label != "" {
		f.labels = []string{label}
	}
	m.add(f)
}

// Histogram counts durations by how long they were.
type Histogram struct{ f *family }

// Histogram makes a histogram of durations. Names end in "_seconds".
func (m *Metrics) Histogram(name, help string, labels ...string) Histogram {
	return Histogram{m.add(&family{name: name, help: help, kind: "histogram", labels: labels,
		bounds: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}})}
}

// Observe counts one duration.
func (h Histogram) Observe(d time.Duration, values ...string) {
	s := h.f.seriesOf(values)
	s.count.Add(1)
	s.sum.Add(int64(d))
	if i, _ := slices.BinarySearch(h.f.bounds, d.Seconds()); i < len(s.buckets) {
		s.buckets[i].Add(1)
	}
}

// seriesOf gives the series of some label values.
func (f *family) seriesOf(values []string) *series {
	key := strings.Join(values, "\xff")
	f.mu.RLock()
	s := f.series[key]
	f.mu.RUnlock()
	if s != nil {
		return s
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s = f.series[key]; s != nil {
		return s
	}
	if len(f.series) >= maxSeries {
		values = slices.Repeat([]string{"other"}, len(f.labels))
		if s = f.series[strings.Join(values, "\xff")]; s != nil {
			return s
		}
		key = strings.Join(values, "\xff")
	}
	s = &series{values: slices.Clone(values), buckets: make([]atomic.Int64, len(f.bounds))}
	f.series[key] = s
	return s
}

// ContentType is the content type of the output of Write.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Write writes all measurements in Prometheus' text format, sorted.
func (m *Metrics) Write(w io.Writer) error {
	m.mu.Lock()
	all := slices.SortedFunc(maps.Values(m.families), func(a, b *family) int { return strings.Compare(a.name, b.name) })
	m.mu.Unlock()
	b := bufio.NewWriter(w)
	for _, f := range all {
		_, _ = fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, escape(f.help, false), f.name, f.kind) // b keeps the error
		f.write(b)
	}
	return b.Flush()
}

func (f *family) write(b *bufio.Writer) {
	line := func(suffix string, s *series, more, value string) {
		_, _ = fmt.Fprintf(b, "%s%s%s %s\n", f.name, suffix, f.labelled(s, more), value) // b keeps the error
	}
	if f.read != nil {
		now := f.read()
		for _, value := range slices.Sorted(maps.Keys(now)) {
			line("", &series{values: []string{value}}, "", number(now[value]))
		}
		return
	}
	f.mu.RLock()
	list := slices.SortedFunc(maps.Values(f.series), func(a, b *series) int { return slices.Compare(a.values, b.values) })
	f.mu.RUnlock()
	for _, s := range list {
		if f.kind != "histogram" {
			line("", s, "", strconv.FormatInt(s.count.Load(), 10))
			continue
		}
		total, sum := s.count.Load(), int64(0)
		for i, bound := range f.bounds {
			sum += s.buckets[i].Load()
			line("_bucket", s, `le="`+number(bound)+`"`, strconv.FormatInt(sum, 10))
		}
		total = max(total, sum) // another observation may be half counted
		line("_bucket", s, `le="+Inf"`, strconv.FormatInt(total, 10))
		line("_sum", s, "", number(time.Duration(s.sum.Load()).Seconds()))
		line("_count", s, "", strconv.FormatInt(total, 10))
	}
}

func (f *family) labelled(s *series, more string) string {
	var parts []string
	for i, v := range s.values {
		if i < len(f.labels) {
			parts = append(parts, f.labels[i]+`="`+escape(v, true)+`"`)
		}
	}
	if more != "" {
		parts = append(parts, more)
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func escape(s string, quoted bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s)
	if quoted {
		s = strings.ReplaceAll(s, `"`, `\"`)
	}
	return s
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
