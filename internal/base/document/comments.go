package document

// StripComments makes plain JSON of JSON with comments and trailing commas, as editors write
// it: these become spaces, so that all positions stay. Strings are not touched.
func StripComments(src []byte) []byte {
	out := append([]byte{}, src...)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	comma := -1 // a comma that nothing follows yet
	for i := 0; i < len(src); {
		next := i + 1
		switch c := src[i]; {
		case c == '"':
			next = endOfString(src, i)
			comma = -1
		case c == '/' && next < len(src) && (src[next] == '/' || src[next] == '*'):
			next = endOfComment(src, i)
			blank(i, next)
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
		i = next
	}
	return out
}

// endOfString gives the position behind the string that begins at i.
func endOfString(src []byte, i int) int {
	for i++; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(src)
}

// endOfComment gives the position behind the comment that begins at i. One that does not end
// reaches to the end.
func endOfComment(src []byte, i int) int {
	if src[i+1] == '/' {
		for i < len(src) && src[i] != '\n' {
			i++
		}
		return i
	}
	for i += 3; i < len(src); i++ { // the star that opens it does not close it
		if src[i] == '/' && src[i-1] == '*' {
			return i + 1
		}
	}
	return len(src)
}
