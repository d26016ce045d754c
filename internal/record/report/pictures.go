package report

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Picture is a PNG in the output of a call.
type Picture struct {
	Name string // the file's, if it has one; as the tool told it
	PNG  []byte
}

// Bounds of pictures that are shown.
const (
	maxPictures   = 20
	maxPictured   = 64 << 20 // bytes of an output with pictures
	maxSide       = 20_000   // pixels
	maxPixels     = 100_000_000
	maxReportPNGs = 32 << 20 // bytes of all pictures of a report
)

// HasPictures reports whether a call's output may have pictures that can be shown.
func HasPictures(c ledger.Call) bool {
	switch c.Tool {
	case "browser.screenshot", "sandbox.execute_code":
		return c.Parts[ledger.PartOutput].Size() <= maxPictured
	}
	return false
}

// Pictures returns the pictures in an output: content_base64 of the output itself, or of its
// images. Data that is not a PNG by its bytes is left out, whatever its declared type.
func Pictures(output []byte) []Picture {
	type image struct {
		Name    string `json:"path"`
		Content []byte `json:"content_base64"`
	}
	var out struct {
		image

		Images []image `json:"images"`
	}
	if json.Unmarshal(output, &out) != nil {
		return nil
	}
	var list []Picture
	for _, one := range append([]image{out.image}, out.Images...) {
		if isPNG(one.Content) && len(list) < maxPictures {
			list = append(list, Picture{one.Name, one.Content})
		}
	}
	return list
}

// isPNG reports whether the bytes begin as a PNG does, and whether it is small enough to be
// drawn: a few bytes can stand for many pixels.
func isPNG(b []byte) bool {
	head, ok := bytes.CutPrefix(b, []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"))
	if !ok || len(head) < 13 {
		return false
	}
	w, h := uint64(binary.BigEndian.Uint32(head)), uint64(binary.BigEndian.Uint32(head[4:]))
	return w > 0 && h > 0 && w <= maxSide && h <= maxSide && w*h <= maxPixels
}
