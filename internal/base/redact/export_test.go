package redact

// KeyRule is a rule of [Keys].
type KeyRule struct{ ID, Pattern string }

// KeyRules lists the rules of [Keys].
func KeyRules() (out []KeyRule) {
	for _, rules := range [][]keyRule{ownRules, keyRules} {
		for _, r := range rules {
			out = append(out, KeyRule{r.id, r.pattern})
		}
	}
	return out
}
