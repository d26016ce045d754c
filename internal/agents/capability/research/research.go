// Package research has the capability research: findings, each with its source, and
// reports that cite them. They are files of the session. Start at [New].
package research

import (
	_ "embed" // the prompt
	"encoding/json"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Folder is the folder of the findings in a session's files. Each has one file.
const Folder = "/.research"

//go:embed prompt.md
var prompt string

// Options are what the capability reaches the web with.
type Options struct {
	// Search tells the tool that searches the web; nil, or "": there is none.
	Search func() tool.ID
	// Secret finds the value of a policy.Secret.Key, for policies that add a secret to
	// requests; nil: there are none.
	Secret func(name string) (string, bool)
}

// Capability is the capability research.
type Capability struct{ o Options }

// New makes the capability.
func New(o Options) Capability { return Capability{o} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "research", Name: "Research", Description: "Deep research capability with organized scratchpad.",
		Status: capability.Available, Icon: "search", Category: "AI", Version: "1", Wants: []string{"network GET https://**"}}
}

const (
	numbers    = `"type":"array","maxItems":500,"items":{"type":"integer","minimum":1}`
	findingOut = `"number":{"type":"integer"},"finding":{"type":"string"},"source":{"type":"string"},"title":{"type":"string"},"quote":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}`
)

// session has the session that the tools belong to.
type session struct {
	capability.Session

	o Options
}

// Part offers the tools, and of the catalog the one that searches the web.
func (c Capability) Part(s capability.Session, _ json.RawMessage) (capability.Part, error) {
	part := c.own(s)
	if c.o.Search == nil || s.Match == nil {
		return part, nil
	}
	switch id := c.o.Search(); {
	case id == "":
	case len(s.Match(string(id))) == 0:
		part.Warnings = append(part.Warnings, "the catalog has no tool "+string(id)+", which the settings name to search the web")
	default:
		part.Tools = append(part.Tools, capability.Offer{Name: "web_search", ID: id})
	}
	return part, nil
}

// own is the part that needs nothing of the catalog.
func (c Capability) own(s capability.Session) capability.Part {
	x := session{s, c.o}
	own := func(name, title, description string, effects tool.Effects, in, out json.RawMessage) tool.Spec {
		return tool.Spec{ID: tool.ID("research." + name), Title: title, Description: description, Version: "1", Risk: tool.Low, Effects: effects, Input: in, Output: out}
	}
	read, write := tool.EffectSet(tool.FSRead), tool.EffectSet(tool.FSRead, tool.FSWrite)
	part := capability.Part{Prompt: prompt, Tools: []capability.Offer{
		capability.Own("add_finding", typed.Func(own("add_finding", "Add a finding",
			"Keeps one finding with its source. A finding without a source is refused. The number that it gets is what you cite it by.", write,
			typed.Object(`"finding":{"type":"string","minLength":1,"maxLength":10000,"description":"What was found: one claim, in your own words."},
				"source":{"type":"string","minLength":1,"maxLength":2000,"description":"Where it is from: a URL, a file's path, or a reference that somebody else can look up."},
				"title":{"type":"string","minLength":1,"maxLength":500,"description":"The source's title."},
				"quote":{"type":"string","minLength":1,"maxLength":5000,"description":"The passage that says so, word for word."},
				"tags":{"type":"array","maxItems":20,"items":{"type":"string","minLength":1,"maxLength":50},"description":"Topics, by which findings are grouped; the first one is its section in a report."}`, "finding", "source"),
			typed.Object(`"number":{"type":"integer"},"path":{"type":"string"},"total":{"type":"integer"},"same_source":{"type":"array","items":{"type":"integer"}}`, "number", "path", "total", "same_source")), x.add)),
		capability.Own("list_findings", typed.Func(own("list_findings", "List findings",
			"Lists the findings so far, with their sources, or those that hold a text or have a tag.", read,
			typed.Object(`"query":{"type":"string","minLength":1,"maxLength":500,"description":"Only those that hold this text anywhere; letter case does not matter."},
				"tag":{"type":"string","minLength":1,"maxLength":50,"description":"Only those with this tag."}`),
			typed.Object(`"findings":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["number","finding","source"],"properties":{`+findingOut+`}}},
				"count":{"type":"integer"},"total":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},"broken":{"type":"array","items":{"type":"string"}}`, "findings", "count", "total", "tags")), x.list)),
		capability.Own("cite_findings", typed.Func(own("cite_findings", "Cite findings",
			"Gives the citations of findings: the marks to put into a text, and the list of sources, each once, in that order.", read,
			typed.Object(`"findings":{`+numbers+`,"minItems":1,"description":"The findings' numbers, in the order in which they are cited."}`, "findings"),
			typed.Object(`"citations":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["finding","mark"],"properties":{"finding":{"type":"integer"},"mark":{"type":"string"}}}},
				"sources":{"type":"array","items":{"type":"string"}},"markdown":{"type":"string"}`, "citations", "sources", "markdown")), x.cite)),
		capability.Own("write_report", typed.Func(own("write_report", "Write a report",
			"Writes a report in Markdown: sections with their findings, each with the number of its source, and the numbered list of sources. Without sections, findings are grouped by their first tag.", write,
			typed.Object(`"title":{"type":"string","minLength":1,"maxLength":300,"description":"The report's title."},
				"introduction":{"type":"string","maxLength":20000,"description":"Markdown to begin with."},
				"sections":{"type":"array","maxItems":100,"description":"The sections, in order.","items":{"type":"object","additionalProperties":false,"required":["heading"],"properties":{
					"heading":{"type":"string","minLength":1,"maxLength":300,"description":"The section's heading."},
					"text":{"type":"string","maxLength":50000,"description":"Markdown before the findings."},
					"findings":{`+numbers+`,"description":"Numbers of the findings to list."}}}},
				"save_to":{"type":"string","minLength":1,"maxLength":1024,"description":"A path in the session's files to keep the report at, as /report.md."}`, "title"),
			typed.Object(`"markdown":{"type":"string"},"path":{"type":"string"},"version":{"type":"integer"},"findings":{"type":"integer"},"sources":{"type":"integer"},
				"left_out":{`+numbers+`}`, "markdown", "findings", "sources", "left_out")), x.report)),
	}}
	part.Tools = append(part.Tools, x.sourceTools(own)...)
	return part
}
