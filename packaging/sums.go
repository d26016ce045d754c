package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sumsFile lists the checksums of all files, as sha256sum reads it.
const sumsFile = "SHA256SUMS"

// namespace is the purpose of a signature: it is worth nothing as a signature of another kind.
const namespace = "remit-release"

func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries { // sorted by name
		if strings.HasPrefix(e.Name(), sumsFile) {
			continue
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is not a file: expected an empty folder to write to", filepath.Join(dir, e.Name()))
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(b.String()), 0o644)
}

// signSums signs the checksums with an OpenSSH key, which every system can verify.
func signSums(dir, key string) error {
	sums := filepath.Join(dir, sumsFile)
	if err := os.RemoveAll(sums + ".sig"); err != nil {
		return err
	}
	cmd := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", namespace, sums)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr // for the key's passphrase
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("signing with ssh-keygen: %w", err)
	}
	return nil
}
