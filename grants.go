package remit

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
)

// GrantTerms are the terms with which a grant is issued or narrowed. Zero budgets are none.
type GrantTerms struct {
	Policies [][]byte      // YAML or JSON. To issue: at least one that is complete; to narrow: any, or none
	Holder   string        // the new holder, as "agent:docs"; default: the person, or the present holder
	Expires  time.Duration // from now; default: a day, or as long as what it derives from
	Calls    int64         // tool calls over its whole life, with all that derives from it
	Tokens   int64         // of models
	Money    int64         // millionths of a dollar, for models
	Note     string        // for people, kept in the ledger
}

func (rt *Runtime) terms(t GrantTerms) (grants.Terms, error) {
	out := grants.Terms{
		Workspace: rt.workspace, Holder: t.Holder, Expires: t.Expires, Note: t.Note,
		Budgets: grant.Budgets{Calls: t.Calls, Tokens: t.Tokens, Money: t.Money},
	}
	for _, src := range t.Policies {
		p, err := policy.Parse("(policy)", src)
		if err != nil {
			return out, err
		}
		out.Parsed = append(out.Parsed, p)
	}
	return out, nil
}

// IssueGrant makes a grant, which is recorded, and gives its token: Options.Grant of another
// runtime takes it, as do remit run --grant and the HTTP API. The holder of the token has the
// authority, so it is a secret.
func (rt *Runtime) IssueGrant(ctx context.Context, t GrantTerms) (token string, err error) {
	terms, err := rt.terms(t)
	if err != nil {
		return "", err
	}
	if len(terms.Parsed) == 0 {
		return "", fault.New(fault.Usage, "a grant needs a policy").In("Policies")
	}
	out, err := rt.app.Grants.Issue(ctx, terms)
	return out.Text, err
}

// NarrowGrant derives a grant from another one. It can do nothing that the other one
// cannot, whatever the terms say; with another Holder it is handed on, which the
// other one's policies must let its holder do.
func (rt *Runtime) NarrowGrant(ctx context.Context, token string, t GrantTerms) (narrower string, err error) {
	terms, err := rt.terms(t)
	if err != nil {
		return "", err
	}
	out, err := rt.app.Grants.NarrowKept(ctx, token, terms)
	return out.Text, err
}

// RevokeGrant ends a grant for good, and all that derives from it: every use of it anywhere is
// refused from the next call on.
func (rt *Runtime) RevokeGrant(ctx context.Context, token, reason string) error {
	_, err := rt.app.Grants.SetStanding(ctx, token, store.Revoked, reason)
	return err
}
