package openapi

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
)

// Config has the settings of a source.
type Config struct {
	Name string                    // of the document; its tools are api:NAME:...
	Base string                    // the address of requests, in place of the document's; "": the document's
	Auth []Auth                    // the credentials of requests
	Load func() (*Document, error) // the compiled document, when it is first needed

	Secret  func(key string) (string, bool)  // finds a stored secret by "store:NAME"; nil: there are none
	Hide    func(name, value string)         // masks a new token from now on; nil: no masking
	Renewed func(name, was, is string) error // keeps a sign-in that was renewed, unless another one was stored meanwhile
	Now     func() time.Time                 // nil: time.Now
}

// Source is the tools of one document. It is safe for concurrent use.
type Source struct {
	conf Config
	base string // with what Discover found

	mu       sync.Mutex
	tools    []*Tool
	tokens   map[string]token // access tokens, by client, token URL and secret
	cached   answers
	renewing sync.Mutex // one call at a time renews a sign-in
	until    time.Time  // no request is sent before: the server said so
}

// New makes a source. Nothing is read before Discover.
func New(c Config) *Source { return &Source{conf: c} }

// Name is the prefix of the IDs of the source's tools, without the last colon.
func (s *Source) Name() string { return "api:" + s.conf.Name }

// Discover returns the document's operations as tools.
func (s *Source) Discover(context.Context) ([]*Tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tools != nil {
		return s.tools, nil
	}
	doc, err := s.conf.Load()
	if err != nil {
		return nil, err
	}
	base := doc.Base
	if s.conf.Base != "" {
		base = s.conf.Base
	}
	if base, err = CheckBase(base); err != nil {
		return nil, err
	}
	s.base = base
	tools := make([]*Tool, len(doc.Operations))
	for i := range doc.Operations {
		tools[i] = s.tool(doc, &doc.Operations[i])
	}
	s.tools = tools
	return tools, nil
}

// Changed returns nil: a document changes only when it is added anew.
func (s *Source) Changed() <-chan struct{} { return nil }

// Close ends nothing, since nothing is started.
func (s *Source) Close() error { return nil }

func (s *Source) now() time.Time {
	if s.conf.Now != nil {
		return s.conf.Now()
	}
	return time.Now()
}

// CheckBase returns a base URL without a final slash. One that is none is an error
// with the code Usage.
func CheckBase(base string) (string, error) {
	if base == "" {
		return "", fault.New(fault.Usage, "the document has no server URL").WithHint("set it with --base https://HOST/PATH")
	}
	to, err := target.Parse("GET", base)
	if err != nil || to.Scheme == "tcp" || strings.ContainsAny(base, "?#") {
		return "", fault.New(fault.Usage, "%.200q is not a valid base URL", base).WithHint("write https://HOST/PATH")
	}
	return strings.TrimSuffix(base, "/"), nil
}
