package files_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func TestWalkingAgreesWithOpenat2(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "a/b/f", "")
	l.link(t, "link", "a")
	l.link(t, "a/up", "..")
	l.link(t, "loop", "loop")
	for _, name := range []string{"", "a", "a/b", "a/b/f", "none", "link", "link/b", "a/up", "a/up/a", "loop", "a/b/f/x"} {
		fast, slow := files.OpenDir(l.ws+"/"+name), files.WalkDir(l.ws+"/"+name)
		if !errors.Is(slow, fast) && fast != slow {
			t.Errorf("%q: openat2 says %v, walking says %v", name, fast, slow)
		}
		if strings.Contains(name, "link") && !errors.Is(slow, syscall.ELOOP) {
			t.Errorf("%q: a link was followed: %v", name, slow)
		}
	}
}

func TestNewNamesWithoutRenameat2(t *testing.T) {
	l := newPlace(t, everything)
	a, b := l.put(t, "a", "a"), l.put(t, "b", "b")
	if err := files.RenameByLink(a, b); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("got %v, want EEXIST", err)
	}
	must(t, files.RenameByLink(a, l.ws+"/c"))
	must(t, os.Mkdir(l.ws+"/d", 0o755), files.RenameByLink(l.ws+"/d", l.ws+"/e"))
	if err := files.RenameByLink(l.ws+"/e", b); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("got %v, want EEXIST", err)
	}
}

func TestApprovalIsForThePlaceThatWasShown(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  read: {ask: [\"**\"]}\n"
	l := newPlace(t, doc)
	shown := l.put(t, "shown", "shown")
	l.put(t, "other", "other")
	ask := permittest.PermitFor(t, l.ws, doc)
	tests := map[string]struct {
		approved []tool.Action
		code     fault.Code // 0: read
	}{
		"nobody approved":  {nil, fault.HandleRefused},
		"approved":         {[]tool.Action{{Kind: tool.FileRead, Path: shown}}, 0},
		"and where it is":  {[]tool.Action{{Kind: tool.FileRead, Path: shown, Real: shown}}, 0},
		"when it was else": {[]tool.Action{{Kind: tool.FileRead, Path: shown, Real: l.ws + "/was"}}, fault.HandleRefused},
		"another file":     {[]tool.Action{{Kind: tool.FileRead, Path: l.ws + "/other"}}, fault.HandleRefused},
		"for writing":      {[]tool.Action{{Kind: tool.FileWrite, Path: shown}}, fault.HandleRefused},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := permit.Mint(permit.Terms{Chain: ask.Chain(), Env: ask.Env(), Approved: tc.approved})
			b, err := files.New(p).ReadAll("shown")
			if tc.code != 0 {
				wantCode(t, err, tc.code)
			} else if err != nil || string(b) != "shown" {
				t.Errorf("read %q, %v", b, err)
			}
		})
	}
}

func BenchmarkReadAll(b *testing.B) {
	l := newPlace(b, everything)
	l.put(b, "d/f", strings.Repeat("x", 1000))
	for b.Loop() {
		if _, err := l.f.ReadAll("d/f"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplace(b *testing.B) {
	l := newPlace(b, everything)
	for b.Loop() {
		if _, err := l.f.Write("f", []byte("x"), files.WriteOptions{Mode: files.Replace}); err != nil {
			b.Fatal(err)
		}
	}
}
