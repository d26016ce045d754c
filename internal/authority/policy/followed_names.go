package policy

import (
	"path"
	"slices"
	"strings"
)

// followed are names of files that agents, editors and Git follow, and that run nothing by themselves: instructions, and
// settings that need others. Honest work writes them, so no pattern has to spell them. The result of a command names them.
var followed = []string{
	// instructions of agents
	"agents.md", "agents.override.md", "agent.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md", "warp.md", "crush.md", "jules.md", "antigravity.md",
	".cursorrules", ".windsurfrules", ".clinerules", ".roorules", ".roomodes", ".rules", ".goosehints", ".replit.md", ".ampcoderc", ".openhands_instructions",
	".github/copilot-instructions.md", ".github/instructions", ".github/prompts", ".github/agents", ".github/chatmodes", ".github/skills", ".aiassistant", ".lingma",
	".pi", ".kimi", ".iflow", ".rovodev", ".grok",
	// servers of agents, in files without a name of their own
	"mcp.json", "mcp_config.json",
	// Git, and what installs its hooks
	".gitattributes", ".gitmodules", ".simple-git-hooks.json", ".huskyrc", ".huskyrc.json", ".lintstagedrc",
	// what build tools load
	".mvn", "gradle-wrapper.properties", ".yarn/releases", ".yarn/plugins",
	// editors
	".run",
	".projectile", ".sublime-project", ".vimspector.json",
}

// Followed reports whether a person's agents, editors or Git follow a file, or one below a folder, of this name. p is the
// path below the workspace. In packages the names are data of others.
func Followed(p string) bool {
	parts := strings.Split(strings.ToLower(path.Clean(p)), "/")
	for i := range parts {
		if slices.Contains(packageFolders, parts[i]) && i < len(parts)-2 {
			return false
		}
		if slices.Contains(repositoryFolders, parts[i]) {
			return false
		}
	}
	for i := range parts {
		if slices.Contains(followed, parts[i]) || i > 0 && slices.Contains(followed, parts[i-1]+"/"+parts[i]) {
			return true
		}
	}
	return false
}

// FollowedNames lists the names of [Followed], in lower case.
func FollowedNames() []string { return slices.Clone(followed) }
