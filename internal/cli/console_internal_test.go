package cli

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// slowWriter takes nothing for a while, then all.
type slowWriter struct {
	bytes.Buffer
	wait time.Duration
}

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(w.wait)
	w.wait = 0
	return w.Buffer.Write(b)
}

// TestASlowReaderGetsAllOutput: the deadline for late output passes while the reader is waited for. A writer
// that stays ends it.
func TestASlowReaderGetsAllOutput(t *testing.T) {
	for name, stays := range map[string]bool{"the writer ended": false, "the writer stays": true} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			want := bytes.Repeat([]byte("output\n"), 9000) // what a pipe holds; more than one write
			if _, err = w.Write(want); err != nil {
				t.Fatal(err)
			}
			if stays {
				defer func() { _ = w.Close() }()
			} else if err = w.Close(); err != nil {
				t.Fatal(err)
			}
			if err = r.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			to := &slowWriter{wait: 50 * time.Millisecond}
			if err := copyOutput(to, r); (err != nil) != stays {
				t.Errorf("got %v", err)
			}
			if !bytes.Equal(to.Bytes(), want) {
				t.Errorf("%d bytes of %d were copied", to.Len(), len(want))
			}
		})
	}
}
