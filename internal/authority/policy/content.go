package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy/glob"
)

// content is a parsed and checked policy document that is not bound to an
// environment.
type content struct {
	name    string
	inherit bool // rest: inherit
	roles   []role

	files    fileSettings
	network  networkSettings
	commands commandSettings
	tools    toolSettings
	models   modelSettings
	api      apiSettings
	secrets  secretSettings

	databases databaseSettings

	agents      agentSettings
	limits      limitSettings
	sideEffects sideEffectSettings
	approvals   approvalSettings
	frozenPlan  frozenPlanSettings
	delegate    *delegation
	onRevoke    string // "", "finish" or "cancel"
	violations  [numViolations]string
	durability  string // ledger.durability: "", "power" or "process"
	isolation   isolationSettings
	place       placeSettings
	mcp         mcpSettings
	data        dataSettings
}

// role is the further policy of the principals that a pattern names.
type role struct {
	pattern string
	name    *glob.Text
	policy  *Policy
}

// settings are the keys that a policy and its roles share, in the order in which
// they print.
func (d *content) settings() []setting {
	return slices.Concat([]setting{
		d.files.setting(),
		d.network.setting(),
		d.commands.setting(),
		d.tools.setting(),
		d.models.setting(),
		d.api.setting(),
		d.secrets.setting(),
		d.databases.setting(),
		d.agents.setting(),
		d.limits.setting(),
		d.sideEffects.setting(),
		d.approvals.setting(),
		d.frozenPlan.setting(),
		delegate(&d.delegate),
		choice("on_revoke", &d.onRevoke, "finish", "cancel"),
		violations(&d.violations),
		mapping("ledger", choice("durability", &d.durability, "power", "process")),
	}, d.isolation.settings(), d.place.settings(&d.data), []setting{
		d.data.flowsSetting(),
		d.mcp.setting(),
		rest(&d.inherit),
	})
}

// section gives one of the sections that hold lists.
func (d *content) section(id sectionID) *section {
	switch id {
	case readSection:
		return &d.files.read
	case writeSection:
		return &d.files.write
	case deleteSection:
		return &d.files.delete
	case networkSection:
		return &d.network.section
	case commandSection:
		return &d.commands.section
	case toolSection:
		return &d.tools.section
	case modelSection:
		return &d.models.section
	case apiSection:
		return &d.api.section
	case databaseReadSection:
		return &d.databases.read
	case databaseWriteSection:
		return &d.databases.write
	}
	return &section{}
}

// deciding is the section that decides in place of a section: files.write decides
// deleting too, unless the document has a section files.delete.
func (d *content) deciding(id sectionID) sectionID {
	if id == deleteSection && !d.files.delete.set {
		return writeSection
	}
	return id
}

var emptyContent = &content{name: "empty"}

func (p *Policy) content() *content {
	if p == nil || p.doc == nil {
		return emptyContent
	}
	return p.doc
}
