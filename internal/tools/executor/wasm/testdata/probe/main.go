// Command probe is a module that carries out instructions on its file system, and reports the
// results.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// step is one thing to do.
type step struct {
	Do   string `json:"do"`
	Path string `json:"path"`
	To   string `json:"to"`
	Text string `json:"text"`
}

func main() {
	var q struct {
		Args struct {
			Steps []step `json:"steps"`
		} `json:"args"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&q); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	results := []string{}
	for _, s := range q.Args.Steps {
		text, err := do(s)
		if err != nil {
			text = "error: " + why(err)
		}
		results = append(results, text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"result": map[string]any{"results": results}}); err != nil {
		os.Exit(3)
	}
}

func why(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return le.Err.Error()
	}
	return err.Error()
}

func do(s step) (string, error) {
	switch s.Do {
	case "read":
		b, err := os.ReadFile(s.Path)
		return string(b), err
	case "write":
		return "ok", os.WriteFile(s.Path, []byte(s.Text), 0o644)
	case "exclusive":
		return open(s, os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	case "append":
		return open(s, os.O_CREATE|os.O_APPEND|os.O_WRONLY)
	case "patch":
		return open(s, os.O_RDWR)
	case "leave": // open
		f, err := os.Create(s.Path)
		if err == nil {
			_, err = f.WriteString(s.Text)
		}
		return "ok", err
	case "large":
		return "ok", os.WriteFile(s.Path, make([]byte, 6<<20), 0o644)
	case "list":
		list, err := os.ReadDir(s.Path)
		var names []string
		for _, e := range list {
			n := e.Name()
			if e.IsDir() {
				n += "/"
			}
			names = append(names, n)
		}
		return strings.Join(names, " "), err
	case "stat":
		i, err := os.Stat(s.Path)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%d %t", i.Size(), i.IsDir()), nil
	case "readlink":
		return os.Readlink(s.Path)
	case "mkdir":
		return "ok", os.Mkdir(s.Path, 0o755)
	case "mkdirall":
		return "ok", os.MkdirAll(s.Path, 0o755)
	case "remove":
		return "ok", os.Remove(s.Path)
	case "removeall":
		return "ok", os.RemoveAll(s.Path)
	case "rename":
		return "ok", os.Rename(s.Path, s.To)
	case "link":
		return "ok", os.Link(s.Path, s.To)
	case "symlink":
		return "ok", os.Symlink(s.Path, s.To)
	case "truncate":
		return "ok", os.Truncate(s.Path, 2)
	}
	return other(s)
}

func open(s step, flags int) (string, error) {
	f, err := os.OpenFile(s.Path, flags, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(s.Text)
	return "ok", errors.Join(err, f.Close())
}

func other(s step) (string, error) {
	switch s.Do {
	case "env":
		return strings.Join(os.Environ(), " "), nil
	case "time":
		return time.Now().UTC().Format(time.RFC3339Nano), nil
	case "sleep":
		begin := time.Now()
		time.Sleep(time.Hour)
		return time.Since(begin).Round(time.Second).String(), nil
	case "random":
		b := make([]byte, 16)
		_, err := rand.Read(b)
		return hex.EncodeToString(b), err
	case "many":
		var all []*os.File
		for n := 0; ; n++ {
			f, err := os.Open(s.Path)
			if err != nil {
				for _, f := range all {
					_ = f.Close()
				}
				return fmt.Sprint(n), nil
			}
			all = append(all, f)
		}
	case "halves":
		f, err := os.Open(s.Path)
		if err != nil {
			return "", err
		}
		b := make([]byte, 3)
		if _, err := f.ReadAt(b, 2); err != nil {
			return "", err
		}
		end, err := f.Seek(-2, io.SeekEnd)
		rest, rerr := io.ReadAll(f)
		return fmt.Sprintf("%s %d %s", b, end, rest), errors.Join(err, rerr)
	case "panic":
		panic("as told")
	case "exit":
		os.Exit(7)
	}
	return "", fmt.Errorf("no step %q", s.Do)
}
