package tables

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// rowMAC authenticates a row. Every value is preceded by its type and length.
func (k *Keys) rowMAC(table string, row sealedRow) []byte {
	m := k.newRowMACs()
	m.begin(table)
	for _, v := range row {
		switch v := v.(type) {
		case int64:
			m.int(v)
		case string:
			m.text(v)
		case []byte:
			m.bytes(v)
		default:
			m.value('?', 0) // no such value is ever written, so no MAC fits
		}
	}
	return m.mac.Sum(nil)
}

// rowMACs computes MACs of rows one after the other. It is for one goroutine.
type rowMACs struct {
	mac hash.Hash
	buf [sha256.Size]byte
}

func (k *Keys) newRowMACs() *rowMACs { return &rowMACs{mac: hmac.New(sha256.New, k.row)} }

// begin starts a row. The caller then adds its values, in the order of the
// columns.
func (m *rowMACs) begin(table string) {
	m.mac.Reset()
	m.value('T', uint64(len(table)))
	m.mac.Write([]byte(table))
}

func (m *rowMACs) value(kind byte, n uint64) {
	m.buf[0] = kind
	binary.BigEndian.PutUint64(m.buf[1:], n)
	m.mac.Write(m.buf[:9])
}

func (m *rowMACs) int(n int64) { m.value('i', uint64(n)) }

func (m *rowMACs) text(s string) {
	m.value('s', uint64(len(s)))
	m.mac.Write([]byte(s))
}

func (m *rowMACs) bytes(b []byte) {
	m.value('b', uint64(len(b)))
	m.mac.Write(b)
}

func (m *rowMACs) fits(mac []byte) bool { return hmac.Equal(mac, m.mac.Sum(m.buf[:0])) }
