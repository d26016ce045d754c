package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// unsteady is a file that can be written for a while, in part, or not at all.
type unsteady struct {
	bytes.Buffer
	room int // of the next writes; below 0: any
}

func (u *unsteady) Write(p []byte) (int, error) {
	if u.room < 0 || len(p) <= u.room {
		u.room = max(-1, u.room-len(p))
		return u.Buffer.Write(p)
	}
	n, _ := u.Buffer.Write(p[:u.room])
	u.room = 0
	return n, errors.New("no space is left")
}

// A file that cannot be written for a while costs no entry, unless it lasts: those are counted.
func TestWhatCannotBeWrittenIsWrittenLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := &unsteady{room: -1}
		b := &buffered{to: file}
		var want bytes.Buffer
		refused, told := 0, 0
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				file.room = rapid.IntRange(-1, 100<<10).Draw(t, "room")
			case 1:
				lost, _ := b.flush()
				told += lost
			default:
				entry := fmt.Appendf(nil, "%d %s\n", n, bytes.Repeat([]byte("x"), rapid.IntRange(0, 90<<10).Draw(t, "length")))
				if _, err := b.Write(entry); err != nil {
					refused++
				} else {
					want.Write(entry)
				}
				if len(b.held) > heldMost {
					t.Fatalf("%d bytes are held", len(b.held))
				}
			}
		}
		file.room = -1
		lost, err := b.flush()
		if told += lost; err != nil || told != refused {
			t.Fatalf("%d entries were lost, and %d are told (%v)", refused, told, err)
		}
		if !bytes.Equal(file.Bytes(), want.Bytes()) {
			t.Fatalf("the file has %d bytes, and not the %d of its entries", file.Len(), want.Len())
		}
	})
}
