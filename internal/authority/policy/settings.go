package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// setting is one key of a policy document: how its value is read and printed.
// Each section declares its settings once, in the order in which they print.
type setting struct {
	key   string
	read  func(p *parser) document.Field
	print func(w *printer, in int) // nothing, if the value is not set
}

// value makes a setting that prints on one line; an empty text is not printed.
func value(key string, read func(p *parser) document.Field, text func() string) setting {
	return setting{key, read, func(w *printer, in int) {
		if s := text(); s != "" {
			w.line(in, "%s: %s", key, s)
		}
	}}
}

// mapping makes a setting of further settings. It is printed if one of them is.
func mapping(key string, settings ...setting) setting {
	return setting{key,
		func(p *parser) document.Field {
			return func(n *document.Node, path string) { p.mapping(n, path, p.fields(settings)) }
		},
		func(w *printer, in int) { w.mapping(in, key, false, settings) }}
}

func size(key string, into *int64) setting {
	return value(key, func(p *parser) document.Field { return p.Size(into) }, func() string { return number(*into) })
}

func duration(key string, into *time.Duration) setting {
	return value(key, func(p *parser) document.Field { return p.Duration(into) }, func() string {
		if *into == 0 {
			return ""
		}
		return into.String()
	})
}

// count makes a setting of a whole number of at least minimum.
func count[T document.Integer](key string, into *T, minimum int64) setting {
	maximum := int64(math.MaxInt64)
	if _, small := any(*into).(int); small {
		maximum = maxCount
	}
	return value(key, func(p *parser) document.Field { return document.Int(p.Reader, into, minimum, maximum) },
		func() string { return number(int64(*into)) })
}

// maxCount bounds the numbers of calls, processes and the like.
const maxCount = math.MaxInt32

func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// optionalCount makes a setting of a whole number for which 0 has a meaning.
func optionalCount(key string, into **int) setting {
	return value(key, func(p *parser) document.Field {
		return optional(p, into, func(v *int) document.Field { return document.Int(p.Reader, v, 0, maxCount) })
	}, func() string {
		if *into == nil {
			return ""
		}
		return strconv.Itoa(**into)
	})
}

// optional makes a field whose value is nil until it has been read.
func optional[T any](p *parser, into **T, field func(*T) document.Field) document.Field {
	return func(n *document.Node, path string) {
		v, before := new(T), p.Problems()
		if field(v)(n, path); p.Problems() == before {
			*into = v
		}
	}
}

func flag(key string, into *bool) setting {
	return value(key, func(p *parser) document.Field { return p.Bool(into) }, func() string {
		if *into {
			return "true"
		}
		return ""
	})
}

func choice(key string, into *string, words ...string) setting {
	return value(key, func(p *parser) document.Field { return p.OneOf(into, words...) }, func() string { return *into })
}

// words makes a setting of a list of strings. A nil list is not printed.
func words(key string, into *[]string, check func(string) error) setting {
	return value(key, func(p *parser) document.Field { return p.Strings(into, 0, check) }, func() string { return quoteAll(*into) })
}

func quoteAll(list []string) string {
	if list == nil {
		return ""
	}
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// riskGate is the lowest risk that a gate of tools applies to.
type riskGate struct {
	pos  fault.Pos
	risk tool.Risk
}

func risk(key string, into **riskGate) setting {
	read := func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			r, ok := tool.ParseRisk(n.Text)
			if !ok || n.Kind != document.String {
				p.Expected(n, path, "low, medium, high or critical")
				return
			}
			*into = &riskGate{pos: p.Pos(n), risk: r}
		}
	}
	return value(key, read, func() string {
		if *into == nil {
			return ""
		}
		return (*into).risk.String()
	})
}

var moneyForm = regex.Lazy(`^([0-9]{1,9})(?:\.([0-9]{1,6}))? USD$`)

// money makes a setting of an amount such as "1.50 USD", in millionths.
func money(key string, into *int64) setting {
	read := func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			m := moneyForm.FindStringSubmatch(n.Text)
			if n.Kind != document.String || m == nil || strings.Trim(m[1]+m[2], "0") == "" {
				p.Expected(n, path, "an amount of money such as 1.50 USD")
				return
			}
			v, err := strconv.ParseInt(m[1]+(m[2] + "000000")[:6], 10, 64)
			if err != nil {
				p.Fail(n, path, "%v", err)
				return
			}
			*into = v
		}
	}
	return value(key, read, func() string {
		if *into == 0 {
			return ""
		}
		return fmt.Sprintf("%d.%06d USD", *into/1e6, *into%1e6)
	})
}

// at notes the position of a setting's value.
func (s setting) at(pos *fault.Pos) setting {
	read := s.read
	s.read = func(p *parser) document.Field {
		field := read(p)
		return func(n *document.Node, path string) {
			*pos = p.Pos(n)
			field(n, path)
		}
	}
	return s
}
