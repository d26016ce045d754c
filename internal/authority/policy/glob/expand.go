package glob

import "fmt"

// expand writes out a pattern's braces.
func expand(pattern string) ([]string, error) {
	if err := validPattern(pattern); err != nil {
		return nil, err
	}
	x := expander{src: pattern}
	if err := x.run("", pattern); err != nil {
		return nil, err
	}
	return x.out, nil
}

// added is how many bytes more the expanded patterns have than the written one.
func added(pattern string, expanded []string) int {
	n := -len(pattern)
	for _, e := range expanded {
		n += len(e)
	}
	return max(n, len(expanded)-1)
}

type expander struct {
	src  string
	out  []string
	size int // bytes of out
}

// run expands the first brace of rest, and what it leads to.
func (x *expander) run(done, rest string) error {
	open := -1
	for i := 0; i < len(rest) && open < 0; i++ {
		switch rest[i] {
		case '\\':
			i++
		case '[':
			end, err := classEnd(rest, i)
			if err != nil {
				return err
			}
			i = end
		case '{':
			open = i
		case '}':
			return fmt.Errorf("pattern %q has a } without its {; write \\} for the character", x.src)
		}
	}
	if open < 0 {
		if len(x.out) == MaxAlternatives {
			return fmt.Errorf("pattern %q stands for more than %d patterns", x.src, MaxAlternatives)
		}
		if len(done)+len(rest) > 2*MaxLength {
			return fmt.Errorf("pattern %q expands to a pattern that is too long", x.src)
		}
		if x.size += len(done) + len(rest); x.size > maxExpanded {
			return fmt.Errorf("pattern %q expands to more than %d bytes", x.src, maxExpanded)
		}
		x.out = append(x.out, done+rest)
		return nil
	}
	parts, end, err := x.choices(rest, open)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := x.run(done+rest[:open], p+rest[end+1:]); err != nil {
			return err
		}
	}
	return nil
}

// choices splits the brace that opens at i, and gives where it closes.
func (x *expander) choices(s string, i int) (parts []string, end int, err error) {
	depth, start := 0, i+1
	for k := i; k < len(s); k++ {
		switch s[k] {
		case '\\':
			k++
		case '[':
			if k, err = classEnd(s, k); err != nil {
				return nil, 0, err
			}
		case '{':
			depth++
		case ',':
			if depth == 1 {
				parts = append(parts, s[start:k])
				start = k + 1
			}
		case '}':
			if depth--; depth == 0 {
				return append(parts, s[start:k]), k, nil
			}
		}
	}
	return nil, 0, fmt.Errorf("pattern %q has a { without its }; write \\{ for the character", x.src)
}
