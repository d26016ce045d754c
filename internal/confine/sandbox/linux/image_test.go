//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/image"
	"github.com/remitrun/remit/internal/confine/image/imagetest"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const imageID = "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef"

const imagePolicy = openPolicy + "where: container\nimage: " + imageID + "\n"

// inImage is a world whose commands see an image with a shell.
func inImage(t *testing.T, src string, more ...imagetest.Entry) *world {
	t.Helper()
	w := newWorld(t, src)
	entries := append(imagetest.Programs(t, "sh", "cat", "ls"), imagetest.File("etc/os-release", "NAME=test\n"), imagetest.File("etc/passwd", "image\n"),
		imagetest.File("opt/data", "of the image\n"), imagetest.Folder("var/tmp"), imagetest.File("srv/shadow", ""), imagetest.Link("opt/out", "/etc/hostname"),
		imagetest.Link("usr/bin/liar", "../../../../../../../../../../usr/bin/true"), imagetest.File("usr/local/bin/readme", "no program"))
	root := filepath.Join(t.TempDir(), "root")
	_, err := image.Unpack(imagetest.Image{Layers: [][]imagetest.Entry{append(entries, more...)}}.Save(t), root)
	must(t, err)
	t.Cleanup(func() { must(t, image.Remove(root)) })
	must(t, w.box.Close())
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, Image: func(id, workspace string) (*sandbox.Image, error) {
		return sandbox.NewImage(id, root, []string{"PATH=/opt/bin:/usr/bin", "FROM=image"}, workspace)
	}})
	t.Cleanup(func() { must(t, w.box.Close()) })
	return w
}

func TestAnImageIsTheSystem(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, imagePolicy, func(t *testing.T, src string) {
		w := inImage(t, src)
		w.file("in", "of the workspace\n")
		for range 2 { // also in a sandbox that was prepared
			out := w.sh(`cat /etc/os-release /opt/data in; echo $FROM $PATH; ls /opt /var; cat /etc/passwd; echo made > out/made
				for f in /opt/out /usr/bin/true /etc/hostname; do cat $f; done; for f in /opt/data /usr/bin/new /etc/new /var/new; do echo x > $f; done`)
			want := "NAME=test\nof the image\nof the workspace\nimage /opt/bin:/usr/bin:/usr/local/bin:/bin\n/opt:\ndata\nout\n\n/var:\ntmp\n" +
				"remit:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
			if got := string(out.Stdout.Data); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			for _, refused := range []string{"/opt/out: No such file", "/usr/bin/true: No such file", "/etc/hostname: No such file",
				"/opt/data: Read-only", "/usr/bin/new: Read-only", "/etc/new: Read-only", "/var/new: Read-only"} {
				if name, why, _ := strings.Cut(refused, ": "); !regexp.MustCompile(name + ".*" + why).Match(out.Stderr.Data) {
					t.Errorf("stderr lacks %q: %s", refused, out.Stderr.Data)
				}
			}
			if out.Place != "image "+imageID {
				t.Errorf("it says that it ran in %q", out.Place)
			}
			if b, err := os.ReadFile(filepath.Join(w.dir, "out/made")); err != nil || string(b) != "made\n" {
				t.Errorf("what it wrote: %q, %v", b, err)
			}
		}
	})
}

// A program that only the machine has is not found, and one that a link of the image names
// is the image's.
func TestProgramsAreTheImages(t *testing.T) {
	w := inImage(t, imagePolicy)
	for _, argv0 := range []string{"true", "/usr/bin/true", "liar", "bash"} {
		if _, err := w.run(sandbox.Command{Argv: []string{argv0}}); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", argv0, err)
		}
	}
	if _, err := w.run(sandbox.Command{Argv: []string{"/usr/local/bin/readme"}}); !errors.Is(err, fault.ToolFailed) {
		t.Errorf("what is not executable: %v", err)
	}
	out, err := w.run(sandbox.Command{Argv: []string{"cat", "/opt/data"}})
	if err != nil || string(out.Stdout.Data) != "of the image\n" {
		t.Errorf("%q, %v", out.Stdout.Data, err)
	}
}

// What policies say of the machine's files below a folder of the image shows none of them.
func TestTheMachinesFilesAreNotInTheImage(t *testing.T) {
	racetest.Skip(t, oneByOne)
	w := inImage(t, strings.Replace(imagePolicy, `read:  {allow: ["**"]}`, `read: {allow: ["**", "/usr/share/**", "/etc/**", "/opt/**"]}`, 1))
	out := w.sh(`cat /etc/hostname; ls /usr; ls /etc`)
	if got := string(out.Stdout.Data); strings.Contains(got, "share") || strings.Contains(got, "apt") {
		t.Errorf("the machine's files are there: %q", got)
	}
	prof, err := w.box.Profile(w.p.Chain(), sandbox.Command{Argv: []string{"ls"}, Dir: w.dir})
	must(t, err)
	if !strings.Contains(strings.Join(prof.Notes, "\n"), `"/etc" is the image's`) || prof.Image != imageID {
		t.Errorf("notes %q, image %q", prof.Notes, prof.Image)
	}
}

// The folder that the workspace is in is the machine's, whatever the image has there.
func TestTheWorkspaceHidesTheImagesFolder(t *testing.T) {
	w := newWorld(t, openPolicy)
	top := strings.Split(w.dir, "/")[1]
	w = inImage(t, imagePolicy, imagetest.File(top+"/hidden", ""))
	img, err := sandbox.NewImage(imageID, "/", nil, w.dir)
	must(t, err)
	if img.Has(w.dir) || !img.Has("/usr/bin") || img.Has("/proc/self") || img.Has("/tmp/x") {
		t.Errorf("tops %v", img.Tops)
	}
}
