package changeset_test

import (
	"os"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

const commands = "version: 1\nname: test\nfiles: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\ncommands: {allow: [\"true\", \"sh **\"]}\n"

// start runs a command in the workspace of a permit.
func (p place) start(t testing.TB, pm permit.Permit, argv ...string) sandbox.Outcome {
	t.Helper()
	out, err := p.box.Run(t.Context(), pm, sandbox.Command{Argv: argv, Dir: p.ws})
	if err != nil {
		t.Fatal(err) // there is an overlay, so there is a sandbox
	}
	return out
}

// What a command forges in the overlay is refused or shown, and reaches nothing.
func TestCommandForges(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "d/x": "x", "try.sh": `
ln -s ../out/secret link
mkfifo fifo
chmod 4755 f
mknod white c 0 0
setfattr -n user.overlay.opaque -v y d
setfattr -n user.overlay.redirect -v /out d
ln f hard
mkdir -p new/deep && echo n >new/deep/n
echo "$(printf 'a\tb')" >"$(printf 'a\tb')"
exit 0
`})
	before := snapshot(t, p.ws)
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	hold := s.Hold(p.box.Overlay)
	p.start(t, permittest.PermitWith(t, p.ws, commands, hold, nil), "sh", "try.sh")
	hold.Close()
	if got := snapshot(t, p.ws); got != before {
		t.Fatalf("the workspace was touched:\n%s", got)
	}
	changes, err := s.Review(t.Context(), anything)
	must(t, err)
	refused := map[string]bool{}
	for _, c := range changes {
		refused[c.Path] = c.Refused != ""
		if c.Kind == changeset.Deleted {
			t.Errorf("%s is to be deleted", c.Path)
		}
	}
	for path, want := range map[string]bool{"link": false, "fifo": true, "new/deep/n": false, "a\tb": true} {
		if got, ok := refused[path]; !ok || got != want {
			t.Errorf("%q: listed %v, refused %v, want %v\n%s", path, ok, got, want, list(changes))
		}
	}
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	if fi, err := os.Lstat(p.ws + "/f"); err != nil || fi.Mode()&os.ModeSetuid != 0 {
		t.Errorf("f is %v, %v", fi.Mode(), err)
	}
	if got := snapshot(t, p.dir+"/out"); got != "\"secret\" -rw-r--r-- \"CANARY\"\n" {
		t.Errorf("outside holds %s", got)
	}
	_, err = p.home.Undo("run")
	must(t, err)
	if got := snapshot(t, p.ws); got != before {
		t.Errorf("undone\n%s\nwant\n%s", got, before)
	}
}

// What a run with held writes leaves is in its changeset alone: it gets an empty home, also where the policy keeps homes.
func TestAHeldRunHasAnEmptyHome(t *testing.T) {
	p := newPlace(t)
	const kept = commands + "sandbox: {home: kept}\n"
	direct := permittest.PermitWith(t, p.ws, kept, nil, nil)
	p.start(t, direct, "sh", "-c", "echo direct >~/left")
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	hold := s.Hold(p.box.Overlay)
	defer hold.Close()
	for range 2 {
		if out := p.start(t, permittest.PermitWith(t, p.ws, kept, hold, nil), "sh", "-c", "ls -A ~; echo held >~/mine; cat ~/mine"); string(out.Stdout.Data) != "held\n" {
			t.Errorf("a held run has %q in its home\n%s", out.Stdout.Data, out.Stderr.Data)
		}
	}
	if out := p.start(t, direct, "sh", "-c", "ls -A ~"); string(out.Stdout.Data) != "left\n" {
		t.Errorf("the next command has %q in its home", out.Stdout.Data)
	}
}

// What holding adds to the start of a command.
func BenchmarkCommand(b *testing.B) {
	p := newPlace(b)
	s, err := p.home.Begin("run", p.ws)
	must(b, err)
	hold := s.Hold(p.box.Overlay)
	defer hold.Close()
	for name, held := range map[string]permit.Held{"held": hold, "direct": nil} {
		pm := permittest.PermitWith(b, p.ws, commands, held, nil)
		p.start(b, pm, "true")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p.start(b, pm, "true")
			}
		})
	}
}
