package reach

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/base/tool"
)

// Who answers for each holder whether it gets to one place, by itself or by others.
func (w *World) Who(to string) ([]Answer, error) {
	var out []Answer
	for _, h := range w.Holders {
		a, err := w.Ask(h.Name, to)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// Gain is something that a holder can do by new policies and could not by the old ones.
type Gain struct {
	Holder  string `json:"holder"`
	Section string `json:"section"`
	Example string `json:"example"`
	Was     string `json:"was" enum:"allow,ask,deny"`
	Is      string `json:"is" enum:"allow,ask,deny"`
	Rule    string `json:"rule"`
}

// Gains returns, for each holder and section, an example of an action that the policies of now
// decide less strictly than old's policies. A holder unknown to old has nothing there.
func Gains(old, now *World) ([]Gain, error) {
	now.begin()
	old.b, old.known, old.means = now.b, map[place]language.Language{}, map[place][]*tool.Spec{}
	var out []Gain
	for h, holder := range now.Holders {
		k := slices.IndexFunc(old.Holders, func(o Holder) bool { return o.Name == holder.Name })
		for _, section := range []string{"files.read", "files.write", "files.delete", "network", "commands", "tools", "models", "api"} {
			for _, least := range []policy.Effect{policy.Allow, policy.Ask} {
				g, err := gain(old, now, k, h, section, least)
				if err != nil {
					return nil, err
				}
				if g != nil {
					out = append(out, *g)
					break
				}
			}
		}
	}
	return out, nil
}

// gain looks for one example with at least this effect now, and a lesser one of old.
func gain(old, now *World, k, h int, section string, least policy.Effect) (*Gain, error) {
	before := language.None
	if k >= 0 {
		before = old.language(k, section, least)
	}
	l := now.b.And(now.language(h, section, least), now.b.Not(before))
	for range maxExamples {
		subject, ok, err := now.example(section, l)
		if err != nil || !ok {
			return nil, err
		}
		is, was := now.decide(h, section, subject, now.actors(h, section, least)), Step{Effect: policy.Deny.String()}
		if k >= 0 {
			was = old.decide(k, section, subject, old.actors(k, section, least))
		}
		if is.effect >= least && was.effect < is.effect {
			return &Gain{now.Holders[h].Name, section, is.Example, was.Effect, is.Effect, is.Rule}, nil
		}
		l = now.b.And(l, now.b.Not(now.b.Text(subject)))
	}
	return nil, nil
}
