package command

import (
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

var (
	jqImports = regex.Lazy(`^(?:\s|#[^\n]*\n)*(?:module|import|include)\b`)
	yqLoads   = regex.Lazy(`\b(?:load|strload)\w*\s*\(\s*"([^"\\]*)"\s*\)`)
	yqLoad    = regex.Lazy(`\b(?:load|strload)\w*\s*\(`)
	yqSystem  = regex.Lazy(`\bsystem\s*\(`)
)

// runJq judges the filter of jq and yq: jq imports further files, yq loads files and starts
// programs.
func runJq(d *deriver, r *parsed) {
	name := base(d.argv[0])
	if !d.certain(name, r) || r.has("f", "from-file") {
		return
	}
	for _, s := range r.operands() {
		switch {
		case name == "yq" && yqCommands[s]:
			continue
		case nonLiteral(s):
		case jqImports.MatchString(s):
			d.unknownUse(name, "its filter reads further files; write it out without import and include")
		case name == "yq" && yqSystem.MatchString(s):
			d.unknownStart(name, "its filter has system()")
		case name == "yq":
			loads := yqLoads.FindAllStringSubmatch(s, -1)
			for _, m := range loads {
				d.argument(reads, m[1], tool.FileArgument)
			}
			if len(loads) < len(yqLoad.FindAllStringSubmatch(s, -1)) {
				d.unknownUse(name, "its filter loads a file whose name is not literal; name the file as an argument")
			}
		}
		return
	}
}

// lessMoves are the commands of less behind + that only move in the text.
var lessMoves = regex.Lazy(`^\+\+?(?:[0-9]*[gGFp%]?|[/?].*)$`)

// runLess judges the words behind + : commands that less carries out at its start.
func runLess(d *deriver, r *parsed) {
	if !d.certain("less", r) {
		return
	}
	for _, w := range r.operands() {
		if strings.HasPrefix(w, "+") && !nonLiteral(w) && !lessMoves.MatchString(w) {
			d.unknownStart("less", "its word "+w+" can be a command that starts a program")
			return
		}
	}
}
