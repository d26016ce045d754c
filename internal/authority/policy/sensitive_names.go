package policy

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// The lists of sensitive names. One * at the start or the end of a name's last
// part stands for anything; a name with slashes is that many folders deep, at
// any place. docs/RATIONALE.md says where the lists come from.

// readSensitive are names whose files hold secrets.
var readSensitive = []string{
	// variables and shells
	".env", ".env.*", ".envrc", "prod.env", "production.env", "staging.env", "development.env", "dev.env", "local.env", "secret.env", "secrets.env", ".dev.vars", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml",
	".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".history", "fish_history", ".python_history",
	".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".lesshst",
	// keys and key stores
	".ssh", ".gnupg", ".pki", ".secrets", ".credentials", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.kdb", "*.kdbx", "*.jks", "*.keystore",
	"*.p8", "*.pkcs12", "*.keytab", "*.ovpn", "*.keychain", "*.keychain-db", "*.agilekeychain", "deploy_key", "deploy-key", ".config/sops/age",
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*",
	".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".1password", ".op", ".config/op", ".vault-token", ".vault_pass", ".vault-pass", ".vault_password",
	"Library/Keychains", ".bitcoin", ".electrum", ".ethereum",
	// clouds and services
	".aws", ".azure", ".gcloud", ".config/gcloud", ".oci", ".aliyun", ".kube", ".docker", ".dockercfg", ".config/containers/auth.json",
	".config/doctl", ".config/rclone", ".s3cfg", ".boto", ".databrickscfg", ".snowsql", ".kaggle", ".cache/huggingface/token",
	"service-account.json", "service_account.json", "service-account-key.json", "serviceAccountKey.json", "credentials.json", "application_default_credentials.json",
	"client_secret.json", "client_secrets.json", "client_secret_*", "gha-creds-*", "kubeconfig", "*.kubeconfig", ".snowflake", ".dbt/profiles.yml", ".ngrok2", ".config/ngrok", ".passwd-s3fs",
	"*.tfstate", "terraform.tfstate*", "*.tfvars", ".terraform.d/credentials*", ".terraformrc", ".pulumi/credentials.json", ".circleci/cli.yml",
	// sources and packages
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli", ".subversion/auth",
	".npmrc", ".pypirc", ".cargo/credentials*", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
	".composer/auth.json", ".config/composer/auth.json", ".nuget/nuget/nuget.config",
	// databases and web servers
	".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd",
	// agents
	".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".qwen/oauth_creds.json",
	".config/github-copilot", ".local/share/opencode/auth.json",
	// browsers and mail
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/vivaldi", ".config/opera", "Library/Safari", "Library/Cookies", "Library/Mail", "Library/Messages",
	"Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
	"Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge",
}

// writeSensitive are names of files that other programs run, or that configure the
// programs they run.
var writeSensitive = []string{
	// version control
	".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules", ".git/worktrees", ".git/info/attributes", ".git/gitweb",
	".git/rebase-merge/git-rebase-todo", ".git/rebase-merge/strategy", ".git/rebase-apply/apply-opt", ".git/sequencer/opts",
	".gitmodules", ".gitattributes", ".gitconfig", ".config/git", ".hg/hgrc", ".hgrc", ".config/hg", ".jj/repo/config.toml", ".sl/config",
	".husky", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", ".lefthook.yml",
	// continuous integration
	".github/workflows", ".github/actions", ".github/hooks", ".github/copilot", ".gitea/workflows", ".forgejo/workflows", ".gitlab-ci.yml", ".circleci", ".travis.yml",
	".drone.yml", ".woodpecker", ".woodpecker.yml", ".buildkite", ".cirrus.yml", ".appveyor.yml", "Jenkinsfile",
	"azure-pipelines.yml", "bitbucket-pipelines.yml",
	// shells, sessions and terminals
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc",
	".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".config/fish", ".config/nushell", ".config/powershell",
	".inputrc", ".tmux.conf", ".screenrc", ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment",
	".config/systemd/user", ".config/autostart", ".config/environment.d", ".config/starship.toml", ".config/direnv",
	".local/bin", ".local/share/applications", "Library/LaunchAgents",
	// editors and debuggers
	".vscode", "*.code-workspace", ".idea", ".ideavimrc", ".fleet", ".zed", ".devcontainer", ".devcontainer.json",
	".vimrc", ".gvimrc", ".exrc", ".vim", ".nvimrc", ".nvim.lua", ".config/nvim", ".emacs", ".emacs.d", ".dir-locals.el", ".dir-locals-2.el",
	".gdbinit", ".lldbinit",
	// tools that read their settings from the folder they run in, or from home
	".cargo/config", ".cargo/config.toml", "mise.toml", ".mise.toml", ".mise", ".config/mise", ".tool-versions", ".asdfrc", ".ripgreprc",
	".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml", ".gemrc", ".irbrc", ".pryrc", ".Rprofile", ".psqlrc", ".sqliterc",
	".wgetrc", ".curlrc", ".mailcap", ".config/pip", ".bazelrc",
	// agents
	".claude", ".codex", ".agents", ".gemini", ".cursor", ".kiro", ".opencode", "opencode.json", ".config/opencode", ".windsurf", ".cline", ".clinerules/hooks", ".roo",
	".continue", ".copilot", ".qwen", ".aider.conf.yml", ".mcp.json", "remit.yaml",
}

// writeAlone are names that are sensitive for writing themselves, and not what
// is in a folder of that name: a .git may be a file or a link that leads to
// another repository. A HEAD beside objects and refs makes a repository as well;
// whether it does, the file system says, see [tool.Action.Lead].
var writeAlone = []string{".git"}

// exceptions lists the ordinary names that begin like a sensitive name with a *: files without secrets, which everybody
// gets with the source.
var exceptions = map[string][]string{".env.*": {".env.example", ".env.sample", ".env.template", ".env.dist"}}

// packageFolders are folders in the workspace that a package manager fills. Each folder in them is a package. There no name is sensitive, unless a repository lies on the way. vendor, target and venv
// are not among them: people also call folders of their own so.
var packageFolders = []string{"node_modules", "bower_components", "jspm_packages", "site-packages", "dist-packages", "__pypackages__", ".venv", ".tox", ".nox"}

// worktreeFolder is the folder of the workspace where Claude Code keeps linked worktrees. Names below it are judged like
// other names of the workspace.
var worktreeFolder = [2]string{".claude", "worktrees"}

// holdsWorktrees reports whether a name of the workspace and the rest of its path lead into [worktreeFolder].
func holdsWorktrees(name, rest string) bool {
	first, _, _ := strings.Cut(rest, "/")
	return name == worktreeFolder[0] && first == worktreeFolder[1]
}

// repositoryFolders are those of version control.
var repositoryFolders = []string{".git", ".hg", ".jj", ".sl"}

// PackageFolders lists the folders in whose subfolders [Sensitive] names are ordinary. Below a folder of version
// control they are not.
func PackageFolders() []string { return append([]string(nil), packageFolders...) }

// Examples lists the ordinary names that begin like a name of [Sensitive] with a *.
func Examples() []string { return slices.Concat(slices.Collect(maps.Values(exceptions))...) }

// Sensitive lists the names that no wildcard of an allow or ask list matches
// for reading, or with write set for writing. A name
// with a slash is a folder and what is in it. $REMIT_HOME is among them too,
// with everything beneath.
func Sensitive(write bool) []string {
	out := append([]string(nil), readSensitive...)
	if write {
		out = append(out, writeSensitive...)
	}
	return out
}

// SensitiveAlone lists the names that [Sensitive] leaves out because they are
// sensitive for writing only themselves, and not with what is in them.
func SensitiveAlone() []string { return append([]string(nil), writeAlone...) }

// SensitiveBelow returns the remaining parts of the names that a path begins and that are sensitive for writing:
// "hooks" for a/.git. A link at such a path would lead to other files by a sensitive name.
func SensitiveBelow(p string) (rest []string) {
	key := ""
	for p = strings.ToLower(p); p != "/" && p != "." && strings.Count(key, "/") < maxBegun; p = path.Dir(p) {
		key = path.Join(path.Base(p), key)
		rest = append(rest, begun()[key]...)
	}
	return rest
}

// maxBegun is how many slashes the longest beginning of a sensitive name has.
const maxBegun = 2

// begun has the sensitive names of several parts by their beginnings, in lower case.
var begun = sync.OnceValue(func() map[string][]string {
	m := map[string][]string{}
	for _, n := range Sensitive(true) {
		for i, c := range n {
			if c == '/' {
				key := strings.ToLower(n[:i])
				m[key] = append(m[key], n[i+1:])
			}
		}
	}
	return m
})
