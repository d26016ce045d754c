package glob

import "strings"

// Name is one segment of a pattern, with a wildcard in it.
type Name struct {
	segment segment
	fold    bool
}

// Match reports whether the segment matches one name.
func (n Name) Match(name string) bool { return n.segment.match(name, n.fold) }

// Names splits the pattern into the names that it spells, in lower case, and its
// segments with wildcards other than * and **. Two names that are not spelled, and
// that each of these segments treats alike, are alike to the pattern wherever they
// stand in a path.
func (p *Pattern) Names() (spelled []string, wild []Name) {
	for i := range p.alts {
		a := &p.alts[i]
		spelled = append(spelled, strings.Split(lowerASCII(a.lead), "/")...)
		for _, s := range a.rest {
			switch {
			case s.kind == segLiteral:
				spelled = append(spelled, lowerASCII(s.lit))
			case s.kind == segDouble || s.kind == segAffix && s.prefix == "" && s.suffix == "":
			default:
				wild = append(wild, Name{s, p.fold})
			}
		}
	}
	return spelled, wild
}
