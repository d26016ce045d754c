package grants

import (
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
)

// Described is a grant as people and programs are shown it.
type Described struct {
	ID        uuid.UUID    `json:"id" format:"uuid"`
	Parent    uuid.UUID    `json:"parent_id,omitzero" format:"uuid"`
	Holder    string       `json:"holder"`
	Issued    time.Time    `json:"issued_at,omitzero" required:"true"`
	NotBefore time.Time    `json:"not_before,omitzero"`
	Expires   time.Time    `json:"expires_at,omitzero"`
	Standing  string       `json:"standing,omitempty" required:"true" enum:"active,paused,revoked" doc:"With the standings of its ancestors"`
	Because   uuid.UUID    `json:"because,omitzero" format:"uuid" doc:"The ancestor whose standing this is"`
	Expired   bool         `json:"expired,omitempty" doc:"It, or an ancestor"`
	Budgets   []Meter      `json:"budgets,omitempty" nullable:"false"`
	Policies  []PolicyText `json:"policies,omitempty" nullable:"false" doc:"Its own policies, without those of its ancestors"`
	Note      string       `json:"note,omitempty"`
	Person    *Person      `json:"person,omitempty" doc:"The holder, as an identity provider named them; missing: the operator issued it"`
}

// Person is a user identified by an identity provider.
type Person struct {
	Issuer  string `json:"issuer" example:"https://login.example.com"`
	Subject string `json:"subject" example:"248289761001"`
	Name    string `json:"name,omitempty" example:"ann@example.com"`
	Role    string `json:"role" example:"developer"`
}

// Meter is a limit of a grant, with the used amount.
type Meter struct {
	What   string `json:"what" example:"calls"`
	Limit  int64  `json:"limit"`
	Spent  int64  `json:"spent"`
	Leased int64  `json:"leased" doc:"By runs under way"`
}

// PolicyText is a policy as it was written.
type PolicyText struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// Describe describes the grant.
func (i Info) Describe() Described {
	g := i.Record
	out := Described{
		ID: g.ID, Parent: g.Parent, Holder: g.Holder, Issued: g.Issued.UTC(), NotBefore: g.NotBefore.UTC(), Expires: g.Expires.UTC(),
		Standing: i.Standing.String(), Expired: i.Expired, Note: g.Note,
	}
	if i.Standing != store.Active && i.Of != g.ID {
		out.Because = i.Of
	}
	for _, m := range i.Spent {
		out.Budgets = append(out.Budgets, Meter{m.ID.What, m.Limit, m.Spent, m.Leased})
	}
	if p := g.Person; p != nil {
		out.Person = &Person{p.Issuer, p.Subject, p.Name, p.Role}
	}
	for _, p := range g.Policies {
		out.Policies = append(out.Policies, PolicyText{p.Name, p.Source})
	}
	return out
}
