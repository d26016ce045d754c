package redact

// KeyRule is a rule of [Keys], with the pattern of a key alone.
type KeyRule struct{ ID, Pattern string }

// KeyRules lists the rules of [Keys] but that of private keys.
func KeyRules() (out []KeyRule) {
	for _, rules := range [][]keyRule{ownRules[1:], keyRules} {
		for _, r := range rules {
			out = append(out, KeyRule{r.id, r.pattern})
		}
	}
	return out
}
