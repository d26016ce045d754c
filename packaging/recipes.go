package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// recipe has the values of the templates of recipes. All of them come from the packager's own names and digests.
type recipe struct {
	Base, Version, Summary string
	Archives               []recipeArchive
}

// recipeArchive is the archive for one architecture.
type recipeArchive struct {
	File, Brew, Nix string // the file, and the architecture as Homebrew's blocks and as Nix's systems name it
	SHA256, SRI     string
}

// writeRecipes writes the install script, a formula for Homebrew and a flake for Nix, which name the archives and
// their checksums. base is the URL of the folder that the release will be in.
func writeRecipes(out, base string, r Release, programs []Program) error {
	about := recipe{Base: base, Version: r.NPM, Summary: summary}
	for _, p := range programs {
		one := recipeArchive{File: archiveName(r, p.Arch)}
		switch p.Arch {
		case "amd64":
			one.Brew, one.Nix = "on_intel", "x86_64-linux"
		case "arm64":
			one.Brew, one.Nix = "on_arm", "aarch64-linux"
		default:
			continue // neither has a name for it here
		}
		data, err := os.ReadFile(filepath.Join(out, one.File))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		one.SHA256, one.SRI = fmt.Sprintf("%x", sum), "sha256-"+base64.StdEncoding.EncodeToString(sum[:])
		about.Archives = append(about.Archives, one)
	}
	for _, name := range []string{"install.sh", "remit.rb", "flake.nix"} {
		text, err := own.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if name == "install.sh" {
			b.Write(text)
		} else if t, err := template.New(name).Delims("<<", ">>").Parse(string(text)); err != nil {
			return err
		} else if err := t.Execute(&b, about); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
