package httpapi

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/filelabels"
)

// Labels has the recorded labels of files: those that they got from calls that wrote to them.
type Labels interface {
	// Labels lists them, and gives the place of the next page; the zero place: there is none.
	Labels(ctx context.Context, q filelabels.Query) ([]filelabels.Item, store.LabelPlace, error)
	// ClearLabels removes those of a file, or of all files in a folder, and returns their number.
	ClearLabels(ctx context.Context, who, path string) (int, error)
}

// LabelList is a page of labels of files, by label and then by path.
type LabelList struct {
	Items []filelabels.Item `json:"items"`
	Next  string            `json:"next,omitempty"`
}

// maxPath is the longest path of a file, in bytes.
const maxPath = 4096

func (s *Server) labels() {
	if s.o.Labels == nil {
		return
	}
	type list struct {
		asked
		Limit    int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"Maximum number of items"`
		Cursor   string `query:"cursor" maxLength:"6000" doc:"The start of the page: next of the previous page"` // it has a path
		Label    string `query:"label" maxLength:"40" example:"web"`
		Below    string `query:"below" maxLength:"4096" doc:"An absolute path: only this file, or the files in this folder" example:"/home/ann/project/notes"`
		Contents bool   `query:"contents" doc:"With contents: every file with one of them has the label"`
	}
	route(s, operation{
		id: "listLabels", method: http.MethodGet, path: "/v1/labels", tag: "labels", action: "labels.read", summary: "List labels of files",
		text: "The recorded labels of files, by label and then by path, with the run and the call that wrote to the file. Labels by a pattern of a policy are not recorded.",
		answer: map[string]any{"items": []any{map[string]any{"path": "/home/ann/project/notes/page.md", "label": "web", "since": "2026-11-21T12:00:00Z",
			"run_id": "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b55", "call": 2}}},
	}, func(ctx context.Context, in *list) (*struct{ Body LabelList }, error) {
		at, err := Page{Cursor: in.Cursor}.place("labels")
		if err != nil {
			return nil, err
		}
		q := filelabels.Query{Label: in.Label, Contents: in.Contents, Limit: in.Limit}
		if in.Below != "" {
			if q.Below, err = cleanPath("query.below", in.Below); err != nil {
				return nil, err
			}
		}
		label, key, _ := strings.Cut(at, "\x00")
		q.After = store.LabelPlace{Label: label, Key: ledger.LabelKey(key)}
		items, next, err := s.o.Labels.Labels(ctx, q)
		if err != nil {
			return nil, err
		}
		out := LabelList{Items: append([]filelabels.Item{}, items...)}
		if next != (store.LabelPlace{}) {
			out.Next = cursor("labels", next.Label+"\x00"+string(next.Key))
		}
		return &struct{ Body LabelList }{out}, nil
	})
	s.clearLabels()
}

func (s *Server) clearLabels() {
	type clearing struct {
		asked
		Body struct {
			Path string `json:"path" minLength:"1" maxLength:"4096" doc:"Absolute: a file, or a folder with its files" example:"/home/ann/project/notes/page.md"`
		} `nameHint:"ClearLabels"`
	}
	type cleared struct {
		Labels int `json:"labels" doc:"How many labels there were"`
	}
	route(s, operation{
		id: "clearLabels", method: http.MethodPost, path: "/v1/labels/clear", tag: "labels", action: "labels.write", summary: "Clear the labels of a file",
		text: "For a person who has looked at the file. Removes the recorded labels of the file, or of the files in the folder, and the labels of its present content. " +
			"Labels by a pattern of a policy stay. Needs a grant that was issued to a person. The record names the person.",
		errors: []int{404}, request: map[string]any{"path": "/home/ann/project/notes/page.md"}, answer: map[string]any{"labels": 1},
	}, func(ctx context.Context, in *clearing) (*struct{ Body cleared }, error) {
		if err := person(in.who); err != nil {
			return nil, err
		}
		path, err := cleanPath("body.path", in.Body.Path)
		if err != nil {
			return nil, err
		}
		n, err := s.o.Labels.ClearLabels(ctx, in.who.Name, path)
		return &struct{ Body cleared }{cleared{n}}, err
	})
}

// cleanPath checks an absolute path of a file or folder.
func cleanPath(field, path string) (string, error) {
	if !filepath.IsAbs(path) || len(path) > maxPath || strings.ContainsRune(path, 0) {
		return "", fault.New(fault.ArgsInvalid, "%.200q is not an absolute path", path).In(field)
	}
	return filepath.Clean(path), nil
}
