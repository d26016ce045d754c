package uitest

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestScreenshots writes the pictures of the documents to the folder in REMIT_UI_SHOTS.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv("REMIT_UI_SHOTS")
	if dir == "" {
		t.Skip("REMIT_UI_SHOTS names no folder: make ui-shots does")
	}
	s, pages := furnished(t)
	b := newTab(t)
	s.signIn(b)
	furnishedAuthority(s, pages)
	furnishedSchedules(s, pages)
	only := os.Getenv("REMIT_UI_PAGES") // with spaces between; "": all
	for _, name := range append([]string{"inbox", "approval", "approvals", "sessions", "session-new", "session", "session-asks", "files", "command-help", "agents", "agent", "agent-new", "config", "capabilities", "capability", "runs", "run", "run-new", "queue", "schedules", "schedule", "schedule-new", "login", "login-asks", "call", "grants", "audit", "settings"}, authorityPages...) {
		if only != "" && !slices.Contains(strings.Fields(only), name) || pages[name] == "" {
			continue
		}
		for _, size := range []struct {
			name  string
			width int64
		}{{"1280", 1280}, {"380", 380}} {
			for _, theme := range []string{"light", "dark"} {
				b.view(size.width, theme)
				b.open(s.url + pages[name])
				b.until(`document.body.dataset.live === "on" && !document.querySelector("[aria-disabled=true]")`)
				run(b, chromedp.Func(noFocus))
				file := filepath.Join(dir, "ui-"+name+"-"+size.name+"-"+theme+".png")
				if err := os.WriteFile(file, small(t, run(b, chromedp.FullScreenshot(100))), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// colours is how many colours a picture has: pages have few, and text little more.
const colours = 32

// maxHeight is where long pages are cut.
const maxHeight = 1100

// distinct gives the most frequent colours, without those that look like one before them.
func distinct(list []color.RGBA) (palette color.Palette) {
	apart := func(a, b uint8) int { return max(int(a), int(b)) - min(int(a), int(b)) }
	for _, c := range list {
		like := slices.ContainsFunc(palette, func(other color.Color) bool {
			o, ok := other.(color.RGBA)
			return ok && apart(o.R, c.R)+apart(o.G, c.G)+apart(o.B, c.B) < 20
		})
		if len(palette) < colours && (!like || len(palette) < 8) { // the first ones are surfaces, which are near to each other
			palette = append(palette, c)
		}
	}
	return palette
}

// small writes a picture with few colours.
func small(t *testing.T, src []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	often, box := map[color.RGBA]int{}, img.Bounds()
	box.Max.Y = min(box.Max.Y, maxHeight)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			often[at(x, y)]++
		}
	}
	list := slices.SortedFunc(maps.Keys(often), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), cmp.Compare(int(a.R)<<16|int(a.G)<<8|int(a.B), int(b.R)<<16|int(b.G)<<8|int(b.B)))
	})
	palette := distinct(list)
	out, index := image.NewPaletted(box, palette), map[color.RGBA]uint8{}
	for y := box.Min.Y; y < box.Max.Y; y++ {
		for x := box.Min.X; x < box.Max.X; x++ {
			c := at(x, y)
			i, known := index[c]
			if !known {
				i = uint8(palette.Index(c)) //nolint:gosec // there are fewer than 256
				index[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
