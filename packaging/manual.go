package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/remitrun/remit/internal/cli"
)

// manual returns a manual page for each command, by file name. It writes them itself: a
// detour over Markdown would take the stars of patterns in the help for emphasis.
func manual(r Release) map[string]string {
	pages := map[string]string{}
	root := cli.Commands()
	root.InitDefaultHelpCmd()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		pages[pageName(c)+".1"] = page(c, r)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	return pages
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// exitStatus begins the part of every help that lists exit statuses.
const exitStatus = "\nExit status: "

func page(c *cobra.Command, r Release) string {
	c.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s %s %s\n", quote(strings.ToUpper(pageName(c))), quote(date(r.Date)), quote("remit "+r.Version), quote("Remit manual"))
	section := func(name string) { fmt.Fprintf(&b, ".SH %s\n", quote(name)) }
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(pageName(c)), roff(strings.TrimSuffix(c.Short, ".")))
	section("SYNOPSIS")
	fmt.Fprintf(&b, ".nf\n%s\n.fi\n", lines(c.UseLine()))
	long, exits, _ := strings.Cut(c.Long, exitStatus)
	_, long, _ = strings.Cut(long, "\n\n") // without the short description
	if long = strings.TrimSpace(long); long == "" {
		long = strings.TrimSuffix(c.Short, ".") + "."
	}
	section("DESCRIPTION")
	prose(&b, long)
	flags(&b, "OPTIONS", c.NonInheritedFlags())
	flags(&b, "GLOBAL OPTIONS", c.InheritedFlags())
	if c.Example != "" {
		section("EXAMPLES")
		verbatim(&b, c.Example)
	}
	if exits != "" {
		section("EXIT STATUS")
		for status := range strings.SplitSeq(strings.ReplaceAll(exits, "\n", " · "), " · ") {
			code, means, _ := strings.Cut(strings.TrimSpace(status), " ")
			fmt.Fprintf(&b, ".TP\n%s\n%s\n", roff(code), roff(means))
		}
	}
	section("FILES")
	fmt.Fprintf(&b, ".TP\n%s\n%s\n", roff("$REMIT_HOME"), roff("the record, keys and settings; default $XDG_DATA_HOME/remit, else ~/.local/share/remit"))
	if related := relatives(c); len(related) > 0 {
		section("SEE ALSO")
		b.WriteString(strings.Join(related, ", ") + "\n")
	}
	return b.String()
}

// relatives are the pages of the commands above and below.
func relatives(c *cobra.Command) (out []string) {
	add := func(c *cobra.Command) {
		if !c.Hidden && c.Name() != "help" {
			out = append(out, "\\fB"+roff(pageName(c))+"\\fR(1)")
		}
	}
	if c.HasParent() {
		add(c.Parent())
	}
	for _, sub := range c.Commands() {
		add(sub)
	}
	return out
}

// flags writes a section with the flags of a set, if it has any.
func flags(b *strings.Builder, name string, set *pflag.FlagSet) {
	first := true
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if first {
			fmt.Fprintf(b, ".SH %s\n", quote(name))
			first = false
		}
		value, usage := pflag.UnquoteUsage(f)
		head := "\\fB" + roff("--"+f.Name) + "\\fR"
		if f.Shorthand != "" {
			head = "\\fB" + roff("-"+f.Shorthand) + "\\fR, " + head
		}
		if value != "" {
			head += " \\fI" + roff(value) + "\\fR"
		}
		fmt.Fprintf(b, ".TP\n%s\n%s\n", head, roff(usage))
	})
}

// prose writes paragraphs; paragraphs with an indented line are shown unchanged.
func prose(b *strings.Builder, text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if paragraph = strings.Trim(paragraph, "\n"); paragraph == "" {
			continue
		}
		if strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t") || strings.Contains(paragraph, "\n ") || strings.Contains(paragraph, "\n\t") {
			verbatim(b, paragraph)
			continue
		}
		fmt.Fprintf(b, ".PP\n%s\n", lines(paragraph))
	}
}

func verbatim(b *strings.Builder, text string) {
	fmt.Fprintf(b, ".PP\n.nf\n%s\n.fi\n", lines(strings.Trim(text, "\n")))
}

// lines escapes text of several lines.
func lines(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, roff(line))
	}
	return strings.Join(out, "\n")
}

var escapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "\t", "    ", "\n", " ")

var request = regexp.MustCompile(`^[.']`)

// roff escapes one line, so that it is shown as it is.
func roff(line string) string {
	if line = escapes.Replace(strings.TrimRight(line, " ")); request.MatchString(line) {
		line = `\&` + line
	}
	return line
}

// quote makes an argument of a request.
func quote(s string) string { return `"` + strings.ReplaceAll(roff(s), `"`, `\(dq`) + `"` }
