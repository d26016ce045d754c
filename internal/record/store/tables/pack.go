package tables

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/remitrun/remit/internal/base/fault"
)

// Smaller data is not compressed, or not stored apart.
const (
	compressFrom = 192
	packMessages = 1 << 10 // of a message: conversations are read as a whole, and quickly
	blobFrom     = 4 << 10 // a part larger than this is a blob
	maxUnpacked  = 1 << 30
	packWindow   = 1 << 20 // how far back compression looks; each processor's encoder holds as much
)

// The encodings of a blob.
const (
	encRaw  = 0
	encZstd = 1
)

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd} // no CBOR map begins with it

// packer compresses and decompresses. Its parts are made on first use and are
// safe for concurrent use; neither starts a goroutine.
type packer struct {
	encOnce, decOnce sync.Once
	enc              *zstd.Encoder
	dec              *zstd.Decoder
}

// pack compresses b where that pays.
func (p *packer) pack(b []byte) ([]byte, bool) {
	if len(b) < compressFrom {
		return b, false
	}
	p.encOnce.Do(func() {
		// The options are valid. Packed data is authenticated elsewhere.
		p.enc, _ = zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithZeroFrames(true),
			zstd.WithWindowSize(packWindow), zstd.WithLowerEncoderMem(true))
	})
	z := p.enc.EncodeAll(b, make([]byte, 0, len(b)/2+64))
	if len(z) >= len(b)-len(b)/16 {
		return b, false
	}
	return z, true
}

func (p *packer) unpack(z []byte) ([]byte, error) {
	p.decOnce.Do(func() {
		p.dec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))
	})
	b, err := p.dec.DecodeAll(z, nil)
	if err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "compressed bytes are damaged: %s", err)
	}
	return b, nil
}

// payload returns an event's payload in the form that the commitment covers.
func (p *packer) payload(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, zstdMagic) {
		return p.unpack(data)
	}
	return data, nil
}
