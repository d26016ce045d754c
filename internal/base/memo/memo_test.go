package memo

import (
	"strconv"
	"testing"
)

// A memo keeps what was used last, within its bound.
func TestAMemoIsBoundedByCost(t *testing.T) {
	m := New[int](1000)
	for i := range 100 {
		m.Put(strconv.Itoa(i), i, 98)
		if v, ok := m.Get("0"); ok != true || v != 0 { // used again and again
			t.Fatalf("after %d values the one used last is gone", i)
		}
		if m.size > m.most || len(m.known) != m.order.Len() {
			t.Fatalf("after %d values it keeps %d bytes, %d and %d values", i, m.size, len(m.known), m.order.Len())
		}
	}
	if len(m.known) != 10 {
		t.Errorf("it keeps %d values, want 10", len(m.known))
	}
	m.Put("99", 1, 2000)
	if _, ok := m.Get("99"); ok || m.size > m.most {
		t.Errorf("it keeps what is larger than itself, or what that replaced")
	}
	m.Put("0", 7, 10)
	if v, _ := m.Get("0"); v != 7 {
		t.Errorf("a value that was replaced is %d", v)
	}
}
