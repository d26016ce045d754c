package hook_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/doors/hook"
)

// BenchmarkMaskKeys is the cost of a report with an output of 1 MB, with a key and without.
func BenchmarkMaskKeys(b *testing.B) {
	text := strings.Repeat("func (w *Writer) Write(b []byte) (int, error) { return w.to.Write(b) } // the key of a task\\n", 11_000)
	for name, end := range map[string]string{"a key": aKey(), "no key": ""} {
		b.Run(name, func(b *testing.B) {
			src := []byte(afterwards["claude"]("Read", `{"file_path":"a.js"}`, `{"file":{"content":"`+text+end+`"}}`))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				e, err := hook.Parse("claude", src)
				if err != nil {
					b.Fatal(err)
				}
				if m := e.MaskKeys(); (m == nil) != (end == "") {
					b.Fatal(m)
				} else if m != nil {
					if _, err := m.Answer(""); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
