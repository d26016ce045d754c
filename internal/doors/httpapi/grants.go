package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
)

// Grants has the grants of the ledger.
type Grants interface {
	// Grants lists grants, newest first.
	Grants(ctx context.Context, f store.GrantFilter) ([]grants.Info, error)
	Grant(ctx context.Context, id string) (grants.Info, error) // fault.GrantUnknown
	// Narrow makes and records a grant that derives from the caller's.
	Narrow(ctx context.Context, who *Caller, t GrantTerms) (NewGrant, error)
	// Set makes a grant active, paused or revoked.
	Set(ctx context.Context, who *Caller, id, standing, reason string) error
}

// GrantTerms narrows the grant that a new one derives from.
type GrantTerms struct {
	Holder   string   `json:"holder,omitempty" maxLength:"200" doc:"The holder that the grant is handed on to, as agent:docs; default: the caller's own" example:"agent:docs"`
	Policies []string `json:"policies,omitempty" maxItems:"16" nullable:"false" doc:"Policies that narrow it further: YAML or JSON"`
	Seconds  int64    `json:"expires_in,omitempty" minimum:"0" maximum:"315360000" doc:"Seconds until it expires; default: when the caller's grant does"`
	Calls    int64    `json:"calls,omitempty" minimum:"0" doc:"Maximum number of calls"`
	Tokens   int64    `json:"tokens,omitempty" minimum:"0" doc:"Maximum number of model tokens"`
	Money    int64    `json:"money,omitempty" minimum:"0" doc:"Maximum cost in millionths of a US dollar"`
	Children *int     `json:"children,omitempty" minimum:"0" maximum:"1048576"`
	Depth    *int     `json:"depth,omitempty" minimum:"0" maximum:"1048576"`
	Sealed   bool     `json:"sealed,omitempty" doc:"Nothing can be appended"`
	Note     string   `json:"note,omitempty" maxLength:"500" doc:"For people"`
}

// NewGrant is a new grant with its token, which is shown only once.
type NewGrant struct {
	Token  string     `json:"token"`
	ID     string     `json:"id" format:"uuid"`
	Holder string     `json:"holder"`
	Until  *time.Time `json:"expires_at,omitempty"`
}

// GrantList is a page of grants, newest first.
type GrantList struct {
	Items []grants.Described `json:"items"`
	Next  string             `json:"next,omitempty"`
}

var exampleGrant = map[string]any{"id": sampleSession, "holder": "agent:docs", "issued_at": "2026-11-21T12:00:00Z", "standing": "active"}

// GrantPath has the ID of a grant.
type GrantPath struct {
	ID string `path:"grant_id" maxLength:"100" example:"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"`
}

type grantIn struct {
	asked
	GrantPath
}

// reachesGrant reports whether the caller may use a grant, or one made under it.
func (s *Server) reachesGrant(ctx context.Context, in *asked, id string) (bool, error) {
	return in.reaches(func() ([]string, error) { return s.o.Lineage.OfGrant(ctx, id) })
}

// grant checks that the caller may use a grant. With the right to change other callers' grants, it
// can be one that this ledger has not seen so far.
func (s *Server) grant(ctx context.Context, in *asked, id string) error {
	find := func(_ context.Context, id string) (string, error) { return id, nil }
	_, err := reachable(ctx, fault.GrantUnknown, "grant", id, find, func(id string) (bool, error) { return s.reachesGrant(ctx, in, id) })
	return err
}

func (s *Server) grants() {
	if s.o.Grants == nil {
		return
	}
	s.listGrants()
	route(s, operation{
		id: "getGrant", method: http.MethodGet, path: "/v1/grants/{grant_id}", tag: "grants", action: "grants.read", summary: "Get a grant",
		errors: []int{404}, answer: exampleGrant,
	}, func(ctx context.Context, in *grantIn) (*struct{ Body grants.Described }, error) {
		if err := s.grant(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		g, err := s.o.Grants.Grant(ctx, in.ID)
		return &struct{ Body grants.Described }{g.Describe()}, err
	})
	type narrow struct {
		asked
		Body GrantTerms
	}
	route(s, operation{
		id: "narrowGrant", method: http.MethodPost, path: "/v1/grants", tag: "grants", action: "grants.write", status: http.StatusCreated,
		summary: "Derive a grant", text: "Narrows the caller's grant, or hands it on to another holder if its policies allow that. The new grant never allows more than the caller's. " +
			"The token is shown this once.",
		errors:  []int{409},
		request: map[string]any{"policies": []any{"version: 1\nrest: inherit\napi: {allow: [sessions.*, agents.read]}\n"}, "expires_in": 3600},
		answer:  map[string]any{"token": "remit1.…", "id": sampleSession, "holder": "agent:docs", "expires_at": "2026-11-21T13:00:00Z"},
	}, func(ctx context.Context, in *narrow) (*struct{ Body NewGrant }, error) {
		if in.who.Lent {
			return nil, fault.New(fault.Denied, "the token is bound to a key, and a grant that derives from it would not be").
				WithHint("derive grants under a grant of this service that is bound to a key, or under a token that is not")
		}
		g, err := s.o.Grants.Narrow(ctx, in.who, in.Body)
		return &struct{ Body NewGrant }{g}, err
	})
	s.setGrants()
}

func (s *Server) listGrants() {
	type list struct {
		asked
		Page
		Holder string `query:"holder" maxLength:"200"`
		Parent string `query:"parent_id" format:"uuid" doc:"Only grants that derive directly from this one"`
	}
	route(s, operation{
		id: "listGrants", method: http.MethodGet, path: "/v1/grants", tag: "grants", action: "grants.read", summary: "List grants",
		text: "Newest first: the caller's own grant and those that derive from it; of a person also the other grants of this person.", answer: map[string]any{"items": []any{exampleGrant}},
	}, func(ctx context.Context, in *list) (*struct{ Body GrantList }, error) {
		at, err := in.number("grants")
		if err != nil {
			return nil, err
		}
		f := store.GrantFilter{Holder: in.Holder, Limit: in.Limit + 1}
		if in.Parent != "" {
			if f.Parent, err = uuid.Parse(in.Parent); err != nil {
				return nil, fault.New(fault.ArgsInvalid, "%q is not the ID of a grant", in.Parent).In("query.parent_id")
			}
		}
		out := GrantList{Items: []grants.Described{}}
		for scanned := 0; ; {
			f.Before = ledger.Seq(at)
			all, err := s.o.Grants.Grants(ctx, f)
			if err != nil {
				return nil, err
			}
			for _, g := range all {
				if len(out.Items) == in.Limit || scanned >= maxScan {
					out.Next = cursor("grants", strconv.FormatUint(at, 10))
					return &struct{ Body GrantList }{out}, nil
				}
				ok, err := s.reachesGrant(ctx, &in.asked, g.Record.ID.String())
				if err != nil {
					return nil, err
				}
				if ok {
					out.Items = append(out.Items, g.Describe())
				}
				at = uint64(g.Record.Seq)
				scanned++
			}
			if len(all) <= in.Limit {
				return &struct{ Body GrantList }{out}, nil
			}
		}
	})
}

// mayResume lets a caller resume only what derives from the grant that it uses: another grant of
// the same person may have been paused to keep that person out.
func (s *Server) mayResume(ctx context.Context, who *Caller, id string) error {
	nodes, err := s.o.Lineage.OfGrant(ctx, id)
	if err != nil {
		return err
	}
	if id == who.Leaf || !slices.Contains(nodes, who.Leaf) && who.May(othersWrite) != nil {
		return fault.New(fault.Denied, "a grant cannot be resumed by its own holder")
	}
	return nil
}

func (s *Server) setGrants() {
	type set struct {
		asked
		GrantPath
		Body *struct {
			Reason string `json:"reason,omitempty" maxLength:"500" doc:"For people"`
		} `nameHint:"Reason"`
	}
	for _, c := range []struct{ name, to, summary, text string }{
		{"revoke", "revoked", "Revoke a grant", "And all that derive from it, for good: no call is begun any more, and those under way end unless the policy lets them finish."},
		{"pause", "paused", "Pause a grant", "And all that derive from it, until it is resumed."},
		{"resume", "active", "Resume a grant", "A grant that was paused may be used again."},
	} {
		route(s, operation{
			id: c.name + "Grant", method: http.MethodPost, path: "/v1/grants/{grant_id}/" + c.name, tag: "grants", action: "grants.write", summary: c.summary, text: c.text,
			errors: []int{404, 409}, request: map[string]any{"reason": "the work is done"}, answer: exampleGrant,
		}, func(ctx context.Context, in *set) (*struct{ Body grants.Described }, error) {
			if err := s.grant(ctx, &in.asked, in.ID); err != nil {
				return nil, err
			}
			if c.to == "active" {
				if err := s.mayResume(ctx, in.who, in.ID); err != nil {
					return nil, err
				}
			}
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			if err := s.o.Grants.Set(ctx, in.who, in.ID, c.to, reason); err != nil {
				return nil, err
			}
			g, err := s.o.Grants.Grant(ctx, in.ID)
			return &struct{ Body grants.Described }{g.Describe()}, err
		})
	}
}
