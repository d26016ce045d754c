package app

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/catalog"
	"github.com/remitrun/remit/internal/fault"
	"github.com/remitrun/remit/internal/policy"
	"github.com/remitrun/remit/internal/policy/target"
	"github.com/remitrun/remit/internal/runner"
	"github.com/remitrun/remit/internal/source/openapi"
	"github.com/remitrun/remit/internal/tool"
)

// API is an OpenAPI document whose operations are tools.
type API struct {
	Name       string         `json:"name"`
	From       string         `json:"from"` // the file or URL that it was read from
	Digest     string         `json:"digest"`
	Base       string         `json:"base"`                 // the URL that requests go below
	BaseGiven  bool           `json:"base_given,omitempty"` // by the person, in place of what the document says
	Auth       []openapi.Auth `json:"auth"`
	Title      string         `json:"title,omitempty"`
	Version    string         `json:"version,omitempty"`
	Operations int            `json:"operations"`
	Wants      []string       `json:"wants,omitempty"` // the credentials that the document speaks of, as --auth has them
	Added      time.Time      `json:"added"`
}

const (
	apisFile   = "apis.json"
	apisFolder = "apis"       // the documents, by digest
	apiCache   = "cache/apis" // the same, compiled
)

var apiNameForm = regexp.MustCompile(`^[a-z][a-z0-9]*([_-][a-z0-9]+)*$`)

// APIs lists the documents, by name.
func (a *App) APIs() ([]API, error) {
	b, err := os.ReadFile(filepath.Join(a.cfg.Home, apisFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []API
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "%s cannot be read: %v", apisFile, unwrapPath(err)).WithHint("restore it from a copy, or remove it and add the documents again")
	}
	return list, nil
}

// API finds a document by its name.
func (a *App) API(name string) (API, error) {
	list, err := a.APIs()
	if err != nil {
		return API{}, err
	}
	for _, one := range list {
		if one.Name == name {
			return one, nil
		}
	}
	return API{}, fault.New(fault.NotFound, "no API is called %.80q", name).WithHint("remit api list lists them")
}

// AddAPI is a document that is to be added.
type AddAPI struct {
	Name    string
	From    string // a file or an https URL
	Base    string // in place of what the document says; "": as it says
	Auth    []openapi.Auth
	Replace bool // of one that has the name already
}

// AddAPI reads a document and makes tools of its operations. A URL is fetched by
// a recorded call that may reach nothing else.
func (a *App) AddAPI(ctx context.Context, q AddAPI) (API, error) {
	if len(q.Name) > 40 || !apiNameForm.MatchString(q.Name) {
		return API{}, fault.New(fault.Usage, "%.80q is no name of an API: lower-case words, as github or github-enterprise", q.Name)
	}
	if err := a.checkAuth(q.Auth); err != nil {
		return API{}, err
	}
	if _, err := a.API(q.Name); err == nil && !q.Replace {
		return API{}, fault.New(fault.Usage, "an API is called %s already", q.Name).WithHint("--replace puts this one in its place")
	}
	src, from, err := a.fetchAPI(ctx, q)
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
	return one, a.changeAPIs(func(list []API) ([]API, error) {
		if err := a.writeWhole(filepath.Join(apisFolder, one.Digest), slices.Concat([]byte(from+"\n"), src)); err != nil {
			return nil, err
		}
		if err := a.cacheAPI(one.Digest, doc); err != nil {
			return nil, err
		}
		list = slices.DeleteFunc(list, func(x API) bool { return x.Name == one.Name })
		list = append(list, one)
		slices.SortFunc(list, func(x, y API) int { return strings.Compare(x.Name, y.Name) })
		return list, nil
	})
}

// changeAPIs changes the list while no other process does.
func (a *App) changeAPIs(change func([]API) ([]API, error)) error {
	if err := os.MkdirAll(a.cfg.Home, 0o700); err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be made: %v", a.cfg.Home, unwrapPath(err))
	}
	lock, err := os.OpenFile(filepath.Join(a.cfg.Home, "apis.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.Wrap(fault.StoreReadOnly, err, "%s cannot be written: %v", a.cfg.Home, unwrapPath(err))
	}
	defer func() { _ = lock.Close() }() // which unlocks; nothing was written to it
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return fault.Wrap(fault.StoreFailed, err, "%s cannot be locked", apisFile)
	}
	list, err := a.APIs()
	if err == nil {
		list, err = change(list)
	}
	if err == nil {
		err = a.writeState(apisFile, list)
	}
	if err != nil {
		return err
	}
	return a.sweepAPIs(list)
}

func (a *App) checkAuth(list []openapi.Auth) error {
	for _, one := range list {
		if err := one.Check(); err != nil {
			return err
		}
		if _, err := a.secrets.Get(one.Secret); err != nil {
			return err
		}
	}
	return nil
}

// fetchAPI reads a document, and says which URL it came from.
func (a *App) fetchAPI(ctx context.Context, q AddAPI) (src []byte, from string, err error) {
	if !strings.HasPrefix(q.From, "https://") && !strings.HasPrefix(q.From, "http://") {
		if src, err = readBounded(q.From, openapi.MaxDocument); err != nil {
			return nil, "", fault.Wrap(fault.Usage, err, "%v", unwrapPath(err)).At(fault.Pos{File: q.From}).WithHint("name an OpenAPI document: a file or a URL")
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
	ws, err := Workspace("/")
	if err != nil {
		return nil, "", err
	}
	s, err := a.Begin(ctx, RunRequest{Root: p, Workspace: ws, Name: "api add " + q.Name})
	if err != nil {
		return nil, "", err
	}
	o, err := s.Call(ctx, runner.Call{Tool: "http.get", Args: tool.Args{"url": q.From, "max_bytes": openapi.MaxDocument}})
	_, eerr := s.End(context.WithoutCancel(ctx))
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

// RemoveAPI forgets a document and its tools.
func (a *App) RemoveAPI(name string) error {
	if _, err := a.API(name); err != nil {
		return err
	}
	return a.changeAPIs(func(list []API) ([]API, error) {
		return slices.DeleteFunc(list, func(x API) bool { return x.Name == name }), nil
	})
}

// sweepAPIs removes documents that no API uses any more.
func (a *App) sweepAPIs(list []API) error {
	var errs []error
	for _, folder := range []string{apisFolder, apiCache} {
		entries, err := os.ReadDir(filepath.Join(a.cfg.Home, folder))
		if err != nil {
			continue // it is not there
		}
		for _, e := range entries {
			digest := e.Name()
			if len(digest) == hex.EncodedLen(sha256.Size) && !slices.ContainsFunc(list, func(x API) bool { return x.Digest == digest }) {
				errs = append(errs, os.Remove(filepath.Join(a.cfg.Home, folder, digest)))
			}
		}
	}
	return errors.Join(errs...)
}

func (a *App) cacheAPI(digest string, doc *openapi.Document) error {
	b, err := doc.Encode()
	if err != nil {
		return err
	}
	return a.writeWhole(filepath.Join(apiCache, digest), b)
}

// APIDocument gives a document's operations: compiled before, or compiled anew
// from the copy that was kept when it was added.
func (a *App) APIDocument(one API) (*openapi.Document, error) {
	const most = 256 << 20
	if b, err := readBounded(filepath.Join(a.cfg.Home, apiCache, one.Digest), most); err == nil {
		if doc, err := openapi.Decode(b); err == nil {
			return doc, nil
		}
	}
	src, err := readBounded(filepath.Join(a.cfg.Home, apisFolder, one.Digest), openapi.MaxDocument+4096)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the document of the API %q cannot be read: %v", one.Name, unwrapPath(err)).WithHint("add it again with --replace")
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
	return doc, a.cacheAPI(one.Digest, doc)
}

// apiSources are the sources of the documents.
func (a *App) apiSources() []catalog.Source {
	list, err := a.APIs()
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
			Name: one.Name, Base: base, Auth: one.Auth, Secret: a.secret, Hide: a.mask.Add,
			Load: func() (*openapi.Document, error) { return a.APIDocument(one) },
		}))
	}
	return out
}
