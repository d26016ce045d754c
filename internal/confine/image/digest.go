package image

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// digest computes a digest as images write it.
type digest struct{ hash.Hash }

func newDigest() digest { return digest{sha256.New()} }

func digestOf(b []byte) string {
	d := newDigest()
	d.Write(b)
	return d.String()
}

func (d digest) String() string { return "sha256:" + hex.EncodeToString(d.Sum(nil)) }
