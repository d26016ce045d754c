package chat

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/extension"
)

// help routes /help and /help COMMAND.
func (r *Router) help(line string, rest []Word) (Route, error) {
	out := Route{Command: "help", Help: true, Usage: "/help [COMMAND]", Description: "Shows what there is to call, and how"}
	if len(rest) == 0 || rest[0].Text == "--help" {
		return out, nil
	}
	name := strings.TrimPrefix(rest[0].Text, "/")
	if r.commands[name] == nil && name != "help" && name != "call" {
		return out, r.unknown(line, rest[0], name)
	}
	if len(rest) > 1 {
		return out, wrong(line, rest[1].At, "unexpected argument %q", clip.Text(rest[1].Text, 60)).WithHint("usage: %s", out.Usage)
	}
	if name != "help" {
		out.Topic = name
	}
	return out, nil
}

// Help describes a command, or lists all of them (""). It reads the usage document of the
// command's extension.
func (r *Router) Help(topic string) (string, error) {
	var b strings.Builder
	switch topic {
	case "":
		r.overview(&b)
		return b.String(), nil
	case "call":
		fmt.Fprintf(&b, "/call TOOL ['{JSON}'] [NAME=VALUE…]\n%s.\n", callSummary)
		return b.String(), nil
	}
	k := r.commands[topic]
	if k == nil {
		return "", fault.New(fault.CommandUnknown, "unknown command /%s", clip.Text(topic, 60))
	}
	k.describe(&b)
	if r.docs == nil {
		return b.String(), nil
	}
	doc, err := r.docs(k.ext.ID)
	if err != nil {
		return "", err
	}
	if doc = strings.TrimSpace(doc); doc != "" {
		fmt.Fprintf(&b, "\n%s\n", doc)
	}
	return b.String(), nil
}

func (r *Router) overview(b *strings.Builder) {
	for _, name := range r.names {
		summary, off := "Shows what there is to call, and how", ""
		switch k := r.commands[name]; {
		case k != nil:
			summary = k.command.Summary
			if k.ext.Off != "" {
				off = " (the extension " + k.ext.ID + " " + k.ext.Off + ")"
			}
		case name == "call":
			summary = callSummary
		}
		fmt.Fprintf(b, "/%-12s %s%s\n", name, summary, off)
	}
}

// describe writes a command and its actions.
func (k *known) describe(b *strings.Builder) {
	c := k.command
	fmt.Fprintf(b, "/%s  %s  (extension %s)\n", c.Name, c.Summary, k.ext.ID)
	if c.Description != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(c.Description))
	}
	for i := range c.Actions {
		a := &c.Actions[i]
		fmt.Fprintf(b, "\n%s\n  %s\n", Usage(c, a), strings.ReplaceAll(strings.TrimSpace(a.Description), "\n", "\n  "))
		for _, p := range a.Arguments {
			fmt.Fprintf(b, "    %-16s %s\n", strings.ToUpper(p.Name), meaning(&p))
		}
		for _, p := range a.Flags {
			name := "--" + p.Name
			if p.Short != "" {
				name = "-" + p.Short + ", " + name
			}
			fmt.Fprintf(b, "    %-16s %s\n", name, meaning(&p))
		}
	}
	if len(c.Examples) > 0 {
		fmt.Fprintf(b, "\nexamples:\n  %s\n", strings.Join(c.Examples, "\n  "))
	}
}

func meaning(p *extension.Param) string {
	out := p.Description
	if len(p.Choices) > 0 {
		out += " (" + strings.Join(p.Choices, ", ") + ")"
	}
	if p.Default != nil {
		out += fmt.Sprintf(" (default: %v)", p.Default)
	}
	return out
}
