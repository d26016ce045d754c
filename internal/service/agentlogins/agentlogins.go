// Package agentlogins reads and renews a person's logins with agents of other makers, so that Remit's proxy can add them to
// requests. The confined agent gets a file with a placeholder.
//
// [Logins.Token] reads a login at the moment of its use, and renews it before it ends. [Logins.Placeholder] makes the file.
// The formats are those that the agents write: Claude Code's .credentials.json, and Codex' auth.json.
package agentlogins

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Logins are the logins of one person; New makes one.
type Logins struct {
	home  string // the person's home folder; "": there are no logins
	dir   string // of the files that are locked during a renewal
	kinds map[string]kind
	http  *http.Client
	now   func() time.Time

	mu      sync.Mutex
	failed  map[string]time.Time // when a renewal failed, by agent
	unsaved map[string]login     // renewed logins that could not be written
}

// New gives the logins in a person's home folder. dir is $REMIT_HOME.
func New(home, dir string) *Logins {
	refused := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect would carry the login elsewhere
	return &Logins{home: home, dir: dir, kinds: maps.Clone(kinds), http: &http.Client{Timeout: renewTime, CheckRedirect: refused}, now: time.Now, failed: map[string]time.Time{}, unsaved: map[string]login{}}
}

// kind is the format of one agent's login.
type kind struct {
	file    string // in the person's home
	within  string // field of the file that has the tokens
	access  string // field in it
	refresh string // field in it
	id      string // field in it: an identity token; "": none
	key     string // field of the file: a key of the API, in place of tokens; "": none
	url     string // where tokens are renewed (RFC 6749, section 6)
	client  string // the agent's public client ID

	placeholder, keyPlaceholder string // of an access token, and of key

	ends  func(tokens fields) time.Time                 // when the access token ends; zero: it is not known
	until func(tokens, all fields, now, ends time.Time) // saves that they were renewed now, and when they end
}

type fields = map[string]json.RawMessage

// lasts is the end of a placeholder: 2100-01-01.
var lasts = time.Unix(4102444800, 0)

var kinds = map[string]kind{
	"claude": {
		file: ".claude/.credentials.json", within: "claudeAiOauth", access: "accessToken", refresh: "refreshToken",
		url: "https://platform.claude.com/v1/oauth/token", client: "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
		placeholder: "sk-ant-oat01-login-of-claude-kept-outside",
		ends: func(s fields) time.Time {
			var ms int64
			if json.Unmarshal(s["expiresAt"], &ms) != nil || ms <= 0 {
				return time.Time{}
			}
			return time.UnixMilli(ms)
		},
		until: func(s, _ fields, _, ends time.Time) { set(s, "expiresAt", ends.UnixMilli()) },
	},
	"codex": {
		file: ".codex/auth.json", within: "tokens", access: "access_token", refresh: "refresh_token", id: "id_token", key: "OPENAI_API_KEY",
		url: "https://auth.openai.com/oauth/token", client: "app_EMoamEEZ73f0CkXaXp7hrann",
		placeholder:    "eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.a2VwdC1vdXRzaWRlLWJ5LXJlbWl0", // a JSON Web Token that ends in 2100
		keyPlaceholder: "sk-login-of-codex-kept-outside",
		ends:           func(s fields) time.Time { return tokenEnds(text(s["access_token"])) },
		until:          func(_, all fields, now, _ time.Time) { set(all, "last_refresh", now.UTC().Format(time.RFC3339Nano)) },
	},
}

// login is a login as it is in its file.
type login struct {
	kind
	path   string // without links
	all    fields
	tokens fields // nil: the login is a key
}

// maxFile bounds the file of a login, in bytes.
const maxFile = 1 << 20

// read reads the login of an agent. The error is [fault.NotFound] if there is none.
func (l *Logins) read(agent string) (login, error) {
	k, known := l.kinds[agent]
	if !known || l.home == "" {
		return login{}, fault.NotFound
	}
	path, err := filepath.EvalSymlinks(filepath.Join(l.home, k.file))
	if errors.Is(err, fs.ErrNotExist) {
		return login{}, fault.NotFound
	}
	if err != nil {
		return login{}, err
	}
	b, err := wholefile.ReadRegular(path, maxFile)
	if err != nil {
		return login{}, err
	}
	in := login{kind: k, path: path}
	if err := json.Unmarshal(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), &in.all); err != nil {
		return login{}, fault.Wrap(fault.Usage, err, "the login %s is not JSON: %v", path, err).
			WithHint("log in again with %s outside of Remit, or remove the file", agent)
	}
	_ = json.Unmarshal(in.all[k.within], &in.tokens) // anything else has no tokens
	if in.token() == "" {
		return login{}, fault.NotFound
	}
	return in, nil
}

// token is the value for a request: the access token, or the key.
func (in login) token() string {
	if t := text(in.tokens[in.access]); t != "" {
		return t
	}
	return text(in.all[in.key])
}

// isKey reports whether the login is a key of the API.
func (in login) isKey() bool { return text(in.tokens[in.access]) == "" }

// Token returns what requests of an agent need, at the moment of its use: the value of an Authorization header after "Bearer ".
// It renews a login that is about to end. false: the person has no login, or it has ended.
func (l *Logins) Token(agent string) (string, bool) {
	in, err := l.read(agent)
	if err != nil {
		return "", false
	}
	if l.isShort(in, renewBefore) {
		if renewed, err := l.renew(agent, l.isShort(in, 0)); err == nil {
			in = renewed
		} else if errors.Is(err, fault.NotFound) {
			return "", false // the person has logged out
		}
	}
	if l.isShort(in, 0) {
		return "", false
	}
	return in.token(), true
}

// isShort reports whether a login ends within a time.
func (l *Logins) isShort(in login, within time.Duration) bool {
	if in.isKey() {
		return false
	}
	ends := in.ends(in.tokens)
	return !ends.IsZero() && ends.Before(l.now().Add(within))
}

// Placeholder is a file for an agent that has no secret in it.
type Placeholder struct {
	File    string // its place in a home folder
	Content []byte
	Token   string // the placeholder of [Logins.Token]
	Key     bool   // Token stands for a key of the API, else for the login of a subscription
}

// Placeholder makes the file. The error is [fault.NotFound] if the person has no login.
func (l *Logins) Placeholder(agent string) (Placeholder, error) {
	in, err := l.read(agent)
	if err != nil {
		return Placeholder{}, err
	}
	out := Placeholder{File: in.file, Token: in.placeholder, Key: in.isKey()}
	all, tokens := fields{}, fields{}
	if mode, ok := in.all["auth_mode"]; ok {
		all["auth_mode"] = mode
	}
	if out.Key {
		out.Token = in.keyPlaceholder
		set(all, in.key, out.Token)
	} else {
		for _, name := range []string{"scopes", "subscriptionType", "rateLimitTier", "account_id"} { // the agent shows them
			if v, ok := in.tokens[name]; ok {
				tokens[name] = v
			}
		}
		if in.id != "" {
			set(tokens, in.id, unsigned(text(in.tokens[in.id]), in.placeholder))
		}
		set(tokens, in.access, out.Token)
		set(tokens, in.refresh, out.Token)
		in.until(tokens, all, lasts, lasts)
		set(all, in.within, tokens)
	}
	out.Content, err = json.MarshalIndent(all, "", "  ")
	return out, err
}

// File is the place of an agent's login in a home folder; "": Remit knows none.
func File(agent string) string { return kinds[agent].file }

// IsPlaceholder reports whether a file of an agent has the content of a [Placeholder].
func IsPlaceholder(agent string, content []byte) bool {
	k := kinds[agent]
	has := func(token string) bool { return token != "" && bytes.Contains(content, []byte(token)) }
	return has(k.placeholder) || has(k.keyPlaceholder)
}

// text is a JSON string; "": it is not one.
func text(v json.RawMessage) (s string) {
	_ = json.Unmarshal(v, &s) // other JSON leaves s empty
	return s
}

func set(in fields, name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only texts, numbers and fields are set
	}
	in[name] = b
}

// tokenEnds is the time exp of a JSON Web Token (RFC 7519), whose signature is not looked at: its issuer does that.
func tokenEnds(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(b, &claims) != nil || claims.Exp <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

// unsigned replaces the signature of a JSON Web Token by that of a placeholder. Agents read the claims; servers refuse the token.
func unsigned(token, placeholder string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return placeholder
	}
	return parts[0] + "." + parts[1] + "." + strings.Split(placeholder, ".")[2]
}
