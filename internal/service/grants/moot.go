package grants

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/compare"
)

// moot says which of the terms of a grant's last block take nothing away from what
// the blocks before it allow.
func moot(before, after *token.Content, env policy.Env) ([]string, error) {
	chains, err := after.Bind(env)
	if err != nil {
		return nil, err
	}
	all, err := after.Policies()
	if err != nil {
		return nil, err
	}
	last := len(chains) - 1
	had := slices.Concat(chains[:last]...)
	own := after.Links()[last]
	var out []string
	for _, limit := range own.Budgets.Moot(before.Budgets().Min(grant.BudgetsOf(had...))) {
		out = append(out, fmt.Sprintf("%s: the grant has no more already", limit))
	}
	if at := before.Expires(); !own.Expires.IsZero() && !own.Expires.Before(at) {
		out = append(out, fmt.Sprintf("the expiry %s: the grant ends at %s already", own.Expires.UTC().Format(time.RFC3339), at.UTC().Format(time.RFC3339)))
	}
	for i, p := range all[last] {
		ok, err := mootPolicy(had, slices.Concat(all[:last]...), p, env, after.Holders(last))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, fmt.Sprintf("the policy %q: no call was found that it refuses and the grant allowed", own.Policies[i].File))
		}
	}
	return out, nil
}

// mootPolicy reports whether a policy beside a chain takes nothing away: the chain
// has the same already, or no example of an entry shows a difference. A policy that
// says more than lists of actions and tools is not judged by examples.
func mootPolicy(had policy.Chain, said []*policy.Policy, p *policy.Policy, env policy.Env, holders []string) (bool, error) {
	if slices.ContainsFunc(said, func(o *policy.Policy) bool { return len(compare.Documents(o, p)) == 0 }) {
		return true, nil
	}
	nothing, err := policy.Parse("nothing.yaml", []byte("version: 1\nname: nothing\nrest: inherit\n"))
	if err != nil {
		return false, err
	}
	for _, c := range compare.Documents(nothing, p) {
		section, list := cutLast(c.Where)
		if c.Where != "rest" && (!judged[section] || !slices.Contains([]string{"allow", "ask", "deny"}, list)) {
			return false, nil
		}
	}
	links, err := grant.Links(env, p, holders...)
	if err != nil {
		return false, err
	}
	return len(compare.Witnesses(had, slices.Concat(had, links), env)) == 0, nil
}

// judged are the sections that examples are made of.
var judged = map[string]bool{"files.read": true, "files.write": true, "files.delete": true, "network": true, "commands": true, "tools": true, "models": true}

func cutLast(where string) (section, list string) {
	i := strings.LastIndexByte(where, '.')
	return where[:max(i, 0)], where[i+1:]
}
