package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
)

// Files has the files of sessions.
type Files interface {
	Files(ctx context.Context, session string) ([]agent.FileInfo, error)
	ReadFile(ctx context.Context, session, path string) ([]byte, agent.FileInfo, error)
	// WriteFile writes a file if it is at a version; 0: at any.
	WriteFile(ctx context.Context, by agent.Caller, session, path string, content []byte, ifVersion int) (agent.FileInfo, error)
	DeleteFile(ctx context.Context, by agent.Caller, session, path string, recursive bool) error
}

// File is a file of a session, or a folder. A client that asks for JSON also gets the
// content.
type File struct {
	agent.FileInfo
	Content  *string `json:"content,omitempty" doc:"With Accept: application/json"`
	Encoding string  `json:"encoding,omitempty" enum:"text,base64"`
}

// FileList has all files of a session.
type FileList struct {
	Items []File `json:"items"`
	Total int    `json:"total"`
}

type fileAnswer struct {
	ETag string `header:"ETag"`
	Body File
}

var exampleFile = map[string]any{"path": "/notes/today.md", "is_directory": false, "size_bytes": 12, "version": 1,
	"created_at": "2026-11-21T12:00:00Z", "updated_at": "2026-11-21T12:00:00Z"}

// FilePath has the path of a session's file.
type FilePath struct {
	SessionPath
	Path string `path:"path" maxLength:"4096" example:"notes/today.md" doc:"Slashes need no escaping"`
}

// absolute gives the file's path in the session. A path that is not clean is refused.
func (f FilePath) absolute() (string, error) {
	p := "/" + strings.TrimPrefix(f.Path, "/")
	for part := range strings.SplitSeq(p[1:], "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "\x00\r\n") || !utf8.ValidString(part) {
			e := bad(http.StatusBadRequest, fault.Usage, "the path is not valid", "write it as notes/today.md, without empty parts, . and ..")
			e.Errors = []FieldError{{Field: "path.path", Message: "the path is not valid"}}
			return "", e
		}
	}
	return p, nil
}

func (s *Server) files() {
	route(s, operation{
		id: "listFiles", method: http.MethodGet, path: "/v1/sessions/{session_id}/files", tag: "files", action: "files.read", summary: "List a session's files",
		text: "All files and folders, by path.", errors: []int{404}, answer: map[string]any{"items": []any{exampleFile}, "total": 1},
	}, func(ctx context.Context, in *sessionIn) (*struct{ Body FileList }, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		all, err := s.o.Files.Files(ctx, in.ID)
		out := FileList{Items: []File{}, Total: len(all)}
		for _, f := range all {
			out.Items = append(out.Items, File{FileInfo: f})
		}
		return &struct{ Body FileList }{out}, err
	})
	type get struct {
		asked
		FilePath
	}
	route(s, operation{
		id: "getFile", method: http.MethodGet, path: "/v1/sessions/{session_id}/files/{path}", tag: "files", action: "files.read", summary: "Get a file",
		text: "The bytes of the file, or with `Accept: application/json` an object with the content.", errors: []int{404},
		more: map[int]reply{200: {text: "The file's bytes", kind: "application/octet-stream"}},
	}, func(ctx context.Context, in *get) (*Streamed, error) {
		path, err := in.absolute()
		if err != nil {
			return nil, err
		}
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		b, info, err := s.o.Files.ReadFile(ctx, in.ID, path)
		if err != nil {
			return nil, err
		}
		in.x.Header().Set("ETag", etag(info.Version))
		if wantsJSON(in.r) {
			return written(in.x, http.StatusOK, withContent(File{FileInfo: info}, b), nil)
		}
		return &Streamed{func(huma.Context) { // nothing that a browser would display
			in.x.Header().Set("Content-Type", "application/octet-stream")
			in.x.Header().Set("Content-Disposition", "attachment")
			in.x.WriteHeader(http.StatusOK)
			_, _ = in.x.Write(b) // the client may have gone
		}}, nil
	})
	s.changeFiles()
}

func wantsJSON(r *http.Request) bool {
	return strings.Contains(strings.ToLower(r.Header.Get("Accept")), "application/json")
}

func withContent(f File, b []byte) File {
	text := string(b)
	f.Encoding = "text"
	if !utf8.Valid(b) {
		text, f.Encoding = base64.StdEncoding.EncodeToString(b), "base64"
	}
	f.Content = &text
	return f
}

func (s *Server) changeFiles() {
	type put struct {
		asked
		FilePath
		Match   string `header:"If-Match" maxLength:"200" doc:"Replace it only if it has this ETag"`
		RawBody []byte `contentType:"application/octet-stream"`
	}
	route(s, operation{
		id: "putFile", method: http.MethodPut, path: "/v1/sessions/{session_id}/files/{path}", tag: "files", action: "files.write", summary: "Write a file",
		text: "The body is the content of the file. Folders above it are created.", raw: s.limits.File, errors: []int{404, 409, 412, 507}, answer: exampleFile,
	}, func(ctx context.Context, in *put) (*fileAnswer, error) {
		path, err := in.absolute()
		if err != nil {
			return nil, err
		}
		version, err := ifMatch(in.Match)
		if err != nil {
			return nil, err
		}
		if in.r.Header.Get("If-None-Match") != "" {
			return nil, bad(http.StatusBadRequest, fault.Usage, "If-None-Match is not supported", "use If-Match with the ETag of the file, or neither")
		}
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		info, err := s.o.Files.WriteFile(ctx, in.agentCaller(), in.ID, path, append([]byte{}, in.RawBody...), version)
		if err != nil {
			return nil, stale(err, version)
		}
		return &fileAnswer{etag(info.Version), File{FileInfo: info}}, nil
	})
	type remove struct {
		asked
		FilePath
		Recursive bool `query:"recursive" doc:"Delete a folder with all that is in it"`
	}
	route(s, operation{
		id: "deleteFile", method: http.MethodDelete, path: "/v1/sessions/{session_id}/files/{path}", tag: "files", action: "files.write", status: http.StatusNoContent,
		summary: "Delete a file or folder", errors: []int{404, 409},
	}, func(ctx context.Context, in *remove) (*struct{}, error) {
		path, err := in.absolute()
		if err != nil {
			return nil, err
		}
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		return nil, s.o.Files.DeleteFile(ctx, in.agentCaller(), in.ID, path, in.Recursive)
	})
}
