package approvals

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/settings"
)

// personOf is the person that holds the root of a grant, and the person's name in records; nil if
// no identity provider knows one.
func personOf(ctx context.Context, st store.Grants, id uuid.UUID) (who *ledger.Person, holder string, err error) {
	for id != uuid.Nil {
		g, err := st.Grant(ctx, id.String())
		if errors.Is(err, fault.GrantUnknown) {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		if g.Parent == uuid.Nil {
			return g.Person, g.Holder, nil
		}
		id = g.Parent
	}
	return nil, "", nil
}

// inRole fills in the role of a person who answers, and whose earlier approvals count no more.
// A person whom an identity provider knows answers as far as the role says.
func (s *Approvals) inRole(ctx context.Context, st store.Grants, q store.Approval, v *store.Vote) error {
	role, known, err := s.roleUnder(ctx, st, v.Grant)
	if err != nil {
		return err
	}
	if known && !role.Answers(q.AskedAs) {
		return fault.New(fault.Denied, "the role %s does not answer questions of people of the role %q", role.Name, q.AskedAs).
			ForOperator("people.roles.%s.approves in config.yaml says whose", role.Name)
	}
	v.Role, v.Admin = role.Name, v.Admin || role.Admin
	for _, before := range q.Votes {
		if !before.Yes || before.Role == "" {
			continue
		}
		now, known, err := s.roleUnder(ctx, st, before.Grant)
		if code := fault.CodeOf(err); err != nil && code != fault.Denied && !code.OfGrant() {
			return err
		}
		if err != nil || !known || now.Name != before.Role || !now.Answers(q.AskedAs) {
			v.Void = append(v.Void, before.By)
		}
	}
	return nil
}

// roleUnder is the role of the person under whose grant something is answered.
func (s *Approvals) roleUnder(ctx context.Context, st store.Grants, id uuid.UUID) (role settings.Role, known bool, err error) {
	who, _, err := personOf(ctx, st, id)
	if err != nil || who == nil {
		return settings.Role{}, false, err
	}
	if s.Role == nil {
		return settings.Role{}, false, grants.NoRoles()
	}
	role, err = s.Role(who)
	return role, true, err
}
