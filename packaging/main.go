// Command packaging makes the files for installation from programs that are already built: deb, rpm
// and apk packages, archives that are also packages of npm, a container image, a bill of materials for each program,
// and signed checksums.
// It needs neither root nor the network. The same programs give the same files, byte for byte.
// Start at [run].
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	version, maintainer string
	repo, out, key      string
	npm, base           string
	programs            []string
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("packaging", flag.ContinueOnError)
	fs.StringVar(&o.version, "version", "", "version, as git describe gives it")
	fs.StringVar(&o.maintainer, "maintainer", "", "name and address of who answers for the packages")
	fs.StringVar(&o.repo, "repo", "..", "folder of Remit's source")
	fs.StringVar(&o.out, "out", "", "folder to write")
	fs.StringVar(&o.npm, "npm", "remit", "name of npm's main package; those of the platforms follow from it")
	fs.StringVar(&o.base, "base", "https://releases.example.org/remit", "URL of the folder that the release will be in, for Homebrew and Nix")
	fs.StringVar(&o.key, "key", "", "OpenSSH key that signs the checksums; none: they are not signed")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.programs = fs.Args()
	if o.version == "" || o.maintainer == "" || o.out == "" || len(o.programs) == 0 {
		return o, errors.New("expected -version, -maintainer, -out and at least one program")
	}
	return o, nil
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	var programs []Program
	for _, path := range o.programs {
		p, err := ReadProgram(path)
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	r, err := NewRelease(o.version, o.maintainer, programs, os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	docs, err := documents(o.repo, r, programs)
	if err != nil {
		return err
	}
	for _, p := range programs {
		if err := writePackages(o.out, r, p, docs); err != nil {
			return err
		}
		if err := writeBill(o.out, o.repo, r, p); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.out, fmt.Sprintf("remit_%s_linux_%s", r.Version, p.Arch)), p.Data, 0o755); err != nil {
			return err
		}
	}
	if err := writeArchives(o.out, r, o.npm, programs, docs); err != nil {
		return err
	}
	if err := writeRecipes(o.out, o.base, r, programs); err != nil {
		return err
	}
	if err := writeImage(filepath.Join(o.out, fmt.Sprintf("remit_%s_oci.tar", r.Version)), r, programs, docs); err != nil {
		return err
	}
	if err := writeSums(o.out); err != nil {
		return err
	}
	if o.key == "" {
		fmt.Printf("remit %s in %s; the checksums are not signed: set SIGNING_KEY\n", r.Version, o.out)
		return nil
	}
	fmt.Printf("remit %s in %s, signed with %s\n", r.Version, o.out, o.key)
	return signSums(o.out, o.key)
}

// date formats a time for files that people read.
func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }
