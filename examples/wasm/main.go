// Command text is a WebAssembly module that Remit runs: three tools over text. It
// is an ordinary Go program, built with
//
//	GOOS=wasip1 GOARCH=wasm go build -o text.wasm .
//
// that reads one request from its standard input and writes one answer to its standard output. Its
// permissions are in text.yaml, beside it.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// request is Remit's request.
type request struct {
	Function string `json:"function"`
	Args     struct {
		Text   string `json:"text"`
		Folder string `json:"folder"`
		Title  string `json:"title"`
	} `json:"args"`
}

func main() {
	var q request
	err := json.NewDecoder(os.Stdin).Decode(&q)
	var result any
	if err == nil {
		result, err = answer(q)
	}
	out := map[string]any{"result": result}
	if err != nil {
		out = map[string]any{"error": err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answer(q request) (any, error) {
	switch q.Function {
	case "count":
		return count(q.Args.Text), nil
	case "headings":
		return headings(q.Args.Folder)
	case "index":
		return index(q.Args.Title)
	}
	return nil, fmt.Errorf("there is no function %q", q.Function)
}

// count needs nothing but its arguments.
func count(text string) map[string]int {
	return map[string]int{"bytes": len(text), "words": len(strings.Fields(text)), "lines": len(strings.Split(strings.TrimSuffix(text, "\n"), "\n"))}
}

// headings reads the folder that the call names, and nothing else: the rest of the
// workspace is not there for it.
func headings(folder string) (map[string][]string, error) {
	found := []string{}
	err := fs.WalkDir(os.DirFS("/"), path.Clean(folder), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		b, err := os.ReadFile("/" + name)
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if title, ok := strings.CutPrefix(line, "# "); ok {
				found = append(found, name+": "+title)
			}
		}
		return nil
	})
	slices.Sort(found)
	return map[string][]string{"headings": found}, err
}

// index writes what headings finds in docs to out/index.md, with the time.
func index(title string) (map[string]any, error) {
	found, err := headings("docs")
	if err != nil {
		return nil, err
	}
	lines := append([]string{"# " + title, "", "By " + os.Getenv("USER") + ", " + time.Now().UTC().Format(time.DateOnly), ""}, found["headings"]...)
	err = os.WriteFile("/out/index.md", []byte(strings.Join(lines, "\n")+"\n"), 0o644)
	return map[string]any{"file": "out/index.md", "entries": len(found["headings"])}, err
}
