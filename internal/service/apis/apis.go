// Package apis keeps the OpenAPI documents that a person added; their operations are tools.
// Start at [APIs.Add].
package apis

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

// APIs are the documents of one $REMIT_HOME.
type APIs struct {
	Home    *home.Home
	Secrets *secrets.Secrets
	Runs    *runs.Runs // fetches documents
}

// API is an OpenAPI document whose operations are tools.
type API struct {
	Name       string         `json:"name"`
	From       string         `json:"from"` // the file or URL that it was read from
	Digest     string         `json:"digest"`
	Base       string         `json:"base"`                 // the URL that requests go below
	BaseGiven  bool           `json:"base_given,omitempty"` // by the person, in place of the document's address
	Auth       []openapi.Auth `json:"auth"`
	Title      string         `json:"title,omitempty"`
	Version    string         `json:"version,omitempty"`
	Operations int            `json:"operations"`
	Wants      []string       `json:"wants,omitempty"` // the credentials that the document speaks of, as --auth has them
	Added      time.Time      `json:"added"`
}

const (
	apisFolder = "apis"       // the documents, by digest
	apiCache   = "cache/apis" // the same, compiled
)

func (s *APIs) added() home.Collection[API] {
	return home.Collection[API]{Home: s.Home, File: "apis.json", Article: "an", One: "API", Again: "add the documents", Command: "remit api", Sweep: s.sweep}
}

// Key is the document's name.
func (d API) Key() string { return d.Name }

// List lists the documents, by name.
func (s *APIs) List() ([]API, error) { return s.added().List() }

// Find finds a document by its name.
func (s *APIs) Find(name string) (API, error) { return s.added().Find(name) }

// Addition is a document that is to be added.
type Addition struct {
	Name    string
	From    string // a file or an https URL
	Base    string // in place of the document's address; "": the document's
	Auth    []openapi.Auth
	Replace bool // of one that has the name already
}

// Add reads a document and makes tools of its operations. A URL is fetched by
// a recorded call that may reach nothing else.
func (s *APIs) Add(ctx context.Context, q Addition) (API, error) {
	if err := s.added().CheckName(q.Name, q.Replace); err != nil {
		return API{}, err
	}
	if err := s.checkAuth(q.Auth); err != nil {
		return API{}, err
	}
	src, from, err := s.fetch(ctx, q)
	if err != nil {
		return API{}, err
	}
	doc, err := openapi.Compile(q.From, from, src)
	if err != nil {
		return API{}, err
	}
	one := API{Name: q.Name, From: q.From, Base: doc.Base, Auth: q.Auth, Title: doc.Title, Version: doc.Version,
		Operations: len(doc.Operations), Wants: doc.Wants, Added: time.Now().UTC().Truncate(time.Second)}
	if q.Base != "" {
		one.Base, one.BaseGiven = q.Base, true
	}
	if one.Base, err = openapi.CheckBase(one.Base); err != nil {
		return API{}, err
	}
	sum := sha256.Sum256([]byte(from + "\x00" + string(src)))
	one.Digest = hex.EncodeToString(sum[:])
	return one, s.added().Put(one, func() error {
		return errors.Join(s.Home.WriteFile(filepath.Join(apisFolder, one.Digest), slices.Concat([]byte(from+"\n"), src)), s.cache(one.Digest, doc))
	})
}

func (s *APIs) checkAuth(list []openapi.Auth) error {
	for _, one := range list {
		if err := one.Check(); err != nil {
			return err
		}
		stored := one.Secret
		if one.Kind == openapi.Login { // the tokens of a sign-in come later
			stored = one.ClientSecret
		}
		if stored == "" {
			continue
		}
		if _, err := s.Secrets.Store.Get(stored); err != nil {
			return err
		}
	}
	return nil
}

// fetch reads a document, and says which URL it came from.
func (s *APIs) fetch(ctx context.Context, q Addition) (src []byte, from string, err error) {
	if !strings.HasPrefix(q.From, "https://") && !strings.HasPrefix(q.From, "http://") {
		if src, err = wholefile.Read(q.From, openapi.MaxDocument); err != nil {
			return nil, "", fault.Wrap(fault.Usage, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: q.From}).WithHint("name an OpenAPI document: a file or a URL")
		}
		return src, "", nil
	}
	to, err := target.Parse("GET", q.From)
	if err != nil {
		return nil, "", err
	}
	if to.Scheme != "https" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, to.Host) {
		return nil, "", fault.New(fault.Usage, "a document that says where credentials go is fetched with https only").WithHint("fetch it by yourself, and add the file")
	}
	p, err := policy.Parse("(api add)", fmt.Appendf(nil, "version: 1\nname: api-add\nnetwork: {allow: [%q], max_bytes: %d}\ntools: {allow: [http.get]}\n",
		to.String(), openapi.MaxDocument))
	if err != nil {
		return nil, "", err
	}
	ws, err := home.Workspace("/")
	if err != nil {
		return nil, "", err
	}
	run, err := s.Runs.Begin(ctx, runs.Request{Root: p, Workspace: ws, Name: "api add " + q.Name})
	if err != nil {
		return nil, "", err
	}
	o, err := run.Call(ctx, runner.Call{Tool: "http.get", Args: tool.Args{"url": q.From, "max_bytes": openapi.MaxDocument}})
	eerr := run.End(context.WithoutCancel(ctx))
	if err = errors.Join(err, o.Err, eerr); err != nil {
		return nil, "", err
	}
	src, err = fetched(o.Output)
	return src, q.From, err
}

// fetched reads the answer that has a document.
func fetched(out map[string]any) ([]byte, error) {
	if status := fmt.Sprint(out["status"]); status != "200" {
		return nil, fault.New(fault.Usage, "the document was not given: status %s", status)
	}
	if out["truncated"] == true {
		return nil, fault.New(fault.Usage, "the document has more than %d bytes", openapi.MaxDocument)
	}
	if s, ok := out["content"].(string); ok {
		return []byte(s), nil
	}
	s, _ := out["content_base64"].(string)
	return base64.StdEncoding.DecodeString(s)
}

// Remove forgets a document, its tools and a sign-in for it.
func (s *APIs) Remove(name string) error {
	if err := s.added().Remove(name); err != nil {
		return err
	}
	if err := s.Secrets.Store.Remove(LoginSecret(name)); !errors.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// sweep removes documents that no API uses any more.
func (s *APIs) sweep(list []API) error {
	used := func(digest string) bool {
		return slices.ContainsFunc(list, func(x API) bool { return x.Digest == digest })
	}
	return errors.Join(s.Home.RemoveUnused(apisFolder, used), s.Home.RemoveUnused(apiCache, used))
}

func (s *APIs) cache(digest string, doc *openapi.Document) error {
	b, err := doc.Encode()
	if err != nil {
		return err
	}
	return s.Home.WriteFile(filepath.Join(apiCache, digest), b)
}

// Document gives a document's operations: compiled before, or compiled anew
// from the copy that was kept when it was added.
func (s *APIs) Document(one API) (*openapi.Document, error) {
	const most = 256 << 20
	if b, err := wholefile.Read(filepath.Join(s.Home.Dir, apiCache, one.Digest), most); err == nil {
		if doc, err := openapi.Decode(b); err == nil {
			return doc, nil
		}
	}
	src, err := wholefile.Read(filepath.Join(s.Home.Dir, apisFolder, one.Digest), openapi.MaxDocument+4096)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the document of the API %q cannot be read: %v", one.Name, wholefile.Cause(err)).WithHint("add it again with --replace")
	}
	from, text, _ := strings.Cut(string(src), "\n")
	sum := sha256.Sum256([]byte(from + "\x00" + text))
	if hex.EncodeToString(sum[:]) != one.Digest {
		return nil, fault.New(fault.StoreCorrupt, "the document of the API %q is not the one that was added", one.Name).WithHint("add it again with --replace")
	}
	doc, err := openapi.Compile(one.From, from, []byte(text))
	if err != nil {
		return nil, err
	}
	return doc, s.cache(one.Digest, doc)
}

// Sources are the sources of the documents.
func (s *APIs) Sources() []catalog.Source {
	list, err := s.List()
	if err != nil {
		return []catalog.Source{catalog.Broken("api", err)}
	}
	out := make([]catalog.Source, len(list))
	for i, one := range list {
		base := ""
		if one.BaseGiven {
			base = one.Base
		}
		out[i] = catalog.From(openapi.New(openapi.Config{
			Name: one.Name, Base: base, Auth: one.Auth, Secret: s.Secrets.Value, Hide: s.Secrets.Mask.Add, Renewed: s.renewed,
			Load: func() (*openapi.Document, error) { return s.Document(one) },
		}))
	}
	return out
}
