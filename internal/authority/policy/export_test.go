package policy

import "slices"

// WithoutIndex gives the chain as it decides without the index of any list.
func (c Chain) WithoutIndex() Chain {
	out := slices.Clone(c)
	for i := range out {
		r := *out[i]
		for id := range r.sections {
			r.sections[id].index, r.sections[id].indexed = [3]*index{}, false
		}
		out[i] = &r
	}
	return out
}

// Indexed reports how many lists of a chain have an index.
func (c Chain) Indexed() (n int) {
	for _, r := range c {
		for id := range r.sections {
			for _, x := range r.sections[id].index {
				if x != nil {
					n++
				}
			}
		}
	}
	return n
}
