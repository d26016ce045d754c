package apis

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/oauth2"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/service/signin"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

// LogIn is how a person signs in at the service of a document.
type LogIn struct {
	Redirect string // a URL of loopback where the browser brings the answer; "": a free port
	// Show tells the person the URL at which they sign in.
	Show func(url string)
}

// lock is held while the list of documents or a sign-in for one is changed.
const lock = "apis.lock"

// loginTime is how long a person has to sign in.
const loginTime = 10 * time.Minute

// LoginSecret is the name of the stored secret that has what a sign-in for a document gave.
func LoginSecret(name string) string { return secrets.NameFor("api-login-", name) }

// signsIn finds a document, and its credential that a person signs in for.
func (s *APIs) signsIn(name string) (API, openapi.Auth, error) {
	one, err := s.Find(name)
	if err != nil {
		return one, openapi.Auth{}, err
	}
	i := slices.IndexFunc(one.Auth, func(a openapi.Auth) bool { return a.Kind == openapi.Login })
	if i < 0 {
		return one, openapi.Auth{}, fault.New(fault.Usage, "the API %q has no credential of the kind login", name).
			WithHint("add it with --replace --auth login=CLIENT --authorize-url URL --token-url URL")
	}
	return one, one.Auth[i], nil
}

// LogIn has a person sign in, by the authorization code flow with PKCE (RFC 6749 and 7636), and keeps
// the tokens among the secrets. The request for the token is a recorded run that may reach nothing
// but the token server; the record has neither code nor tokens.
func (s *APIs) LogIn(ctx context.Context, name string, q LogIn) error {
	one, auth, err := s.signsIn(name)
	if err != nil {
		return err
	}
	client := ""
	if auth.ClientSecret != "" {
		if client, err = s.Secrets.Store.Get(auth.ClientSecret); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, loginTime, fault.New(fault.ToolTimeout, "no sign-in within %s", loginTime))
	defer stop()
	back, err := signin.Listen(ctx, q.Redirect)
	if err != nil {
		return err
	}
	defer back.Close()
	conf := auth.OAuth2(client)
	conf.RedirectURL = back.URL
	state, verifier := oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	q.Show(conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)))
	code, said, _, err := back.Wait(ctx)
	switch {
	case err != nil:
		return err
	case subtle.ConstantTimeCompare([]byte(said), []byte(state)) != 1 || code == "":
		return fault.New(fault.HandleRefused, "the answer of the sign-in is not one to this sign-in").WithHint("run the command again, and use the URL that it prints")
	}
	got, err := s.exchange(ctx, one, &tokenRequest{auth: auth, conf: conf, code: code, verifier: verifier})
	if err != nil {
		return err
	}
	return s.keepLogin(one, auth, got)
}

// exchange gets the tokens for a code.
func (s *APIs) exchange(ctx context.Context, one API, t *tokenRequest) (openapi.Granted, error) {
	p, err := policy.Parse("(remit api login)", fmt.Appendf(nil, "version: 1\nname: api-login\nnetwork: {allow: [%q], max_bytes: 1MiB, timeout: 1m}\ntools: {allow: [%s]}\n",
		"POST "+t.auth.TokenURL, loginID))
	if err != nil {
		return openapi.Granted{}, err
	}
	ws, err := home.Workspace("/")
	if err != nil {
		return openapi.Granted{}, err
	}
	c, err := catalog.New(t)
	if err != nil {
		return openapi.Granted{}, err
	}
	b, ctx, begun, err := s.Runs.Start(ctx, runs.Request{Root: p, Workspace: ws}, runner.Info{Name: "api login " + one.Name, Total: 1})
	if err != nil {
		return openapi.Granted{}, err
	}
	b.Runner.Catalog = c
	o := b.Runner.Execute(ctx, b.Run, runner.Call{Tool: loginID, Args: tool.Args{"url": t.auth.TokenURL}})
	_, err = b.Finish(context.WithoutCancel(ctx), begun, o.Status, o.Fatal)
	return t.got, errors.Join(o.Err, err)
}

// keepLogin stores the tokens of a sign-in, if the document has not changed since the sign-in
// began.
func (s *APIs) keepLogin(one API, auth openapi.Auth, got openapi.Granted) error {
	text, err := got.Text()
	if err != nil {
		return err
	}
	return s.added().Change("login", one.Name, func(list []API) ([]API, error) {
		now, there := home.Entry(list, one.Name)
		if !there || now.Digest != one.Digest || !slices.ContainsFunc(now.Auth, func(a openapi.Auth) bool {
			return a.Kind == openapi.Login && a.TokenURL == auth.TokenURL && a.Name == auth.Name
		}) {
			return nil, fault.New(fault.Conflict, "the API %q was removed or changed meanwhile: the sign-in is not kept", one.Name).WithHint("remit api login %s", one.Name)
		}
		_, err := s.Secrets.Store.Set(auth.Secret, text, time.Now())
		return list, err
	}, nil)
}

// renewed keeps a sign-in that was renewed, unless another one was stored meanwhile.
func (s *APIs) renewed(name, was, is string) error {
	return s.Home.Locked(lock, func() error {
		if now, err := s.Secrets.Store.Get(name); err != nil || now != was {
			return nil //nolint:nilerr // it was removed: somebody logged out
		}
		_, err := s.Secrets.Store.Set(name, is, time.Now())
		return err
	})
}

// LogOut forgets a sign-in. The service is not told.
func (s *APIs) LogOut(name string) error {
	if _, err := s.Find(name); err != nil {
		return err
	}
	return s.Home.Locked(lock, func() error {
		if _, err := s.Secrets.Store.Get(LoginSecret(name)); errors.Is(err, fault.NotFound) {
			return fault.New(fault.Usage, "no sign-in is stored for the API %q", name)
		}
		return s.Home.Recorded("api.logout", ledger.OperatorAction{Target: name}, func() error { return s.Secrets.Store.Remove(LoginSecret(name)) })
	})
}

// loginID is what the record calls the request for a token after a sign-in. It is in no catalog
// but that of its own run.
const loginID = tool.ID("api.login")

// IsLoginRun reports whether a run's first call is a sign-in's.
func IsLoginRun(id tool.ID) bool { return id == loginID }

// HelperTools are the tools whose call is the whole of a run that no person or agent began.
func HelperTools() []tool.ID { return []tool.ID{loginID} }

// Unlisted are the tools of runs of this package, which no catalog lists.
func Unlisted() []*tool.Spec { return []*tool.Spec{(&tokenRequest{}).Spec()} }

// RecordedTools are the tools of recorded runs of sign-ins, which run nothing.
func RecordedTools() (runner.Catalog, error) { return catalog.New(&tokenRequest{}) }

// tokenRequest asks a token server for the tokens of a code.
type tokenRequest struct {
	auth           openapi.Auth
	conf           oauth2.Config
	code, verifier string
	got            openapi.Granted
}

// Spec implements permit.Tool.
func (*tokenRequest) Spec() *tool.Spec {
	return &tool.Spec{
		ID: loginID, Title: "Sign in at a service", Version: "1", Source: "builtin", Risk: tool.Medium,
		Description: "Gets the tokens of a person's sign-in at the service of an OpenAPI document.",
		Input:       []byte(`{"type": "object", "additionalProperties": false, "required": ["url"], "properties": {"url": {"type": "string"}}}`),
		Output:      []byte(`{"type": "object"}`),
		Effects:     tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS),
	}
}

// Prepare implements permit.Tool. The result for a recorded run cannot run: it has no code.
func (t *tokenRequest) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	url, _ := args["url"].(string)
	to, err := target.Parse("POST", url)
	if err != nil {
		return permit.Prepared{}, err
	}
	return permit.Prepared{Actions: []tool.Action{{Kind: tool.Network, Target: to}}, Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
		token, err := t.conf.Exchange(openapi.TokenClient(ctx, p), t.code, oauth2.VerifierOption(t.verifier))
		t.got, err = t.auth.GrantedBy(token, err, openapi.Granted{})
		return tool.Result{}, err
	}}, nil
}
