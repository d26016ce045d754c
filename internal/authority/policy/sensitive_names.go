package policy

import (
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
)

// The lists of sensitive names. One * at the start of a name without slashes, or at the end of
// a name's last part, stands for anything; a name with slashes is that many folders deep, at
// any place. docs/RATIONALE.md says where the lists come from.

// readSensitive are names whose files hold secrets.
var readSensitive = []string{
	// variables and shells
	".env", ".env.*", ".env-*", "*.env", ".envrc", ".dev.vars*", ".Renviron",
	".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".zhistory", ".histfile", ".history", "fish_history", ".python_history",
	".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".irb_history", ".mongo_history", ".dbshell",
	".duckdb_history", ".influx_history", ".php_history", ".Rhistory", ".lesshst", ".viminfo", "ConsoleHost_history.txt",
	// secrets and passwords by name
	"secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", "secrets.ini", "secrets.txt", "secrets.properties", "secret.json", "secret.txt",
	".secrets", ".secrets.yml", ".secrets.yaml", ".secrets.json", ".secrets.toml", ".secret", "secret_token.rb",
	".credentials", "credentials.yml", "credentials.yaml", "credentials.csv", "credentials.txt", "credentials.ini",
	".password", ".passwd", "password.txt", "passwords.txt", "passwords.csv", ".htpasswd", "htpasswd",
	".token", ".tokens", ".apikey", ".api_key", ".api-key", "apikey.txt", "api_key.txt", "api-key.txt", ".github_token", ".gitlab_token",
	".vault-token", ".vault_pass*", ".vault-pass*", "vault_pass", "vault_pass.txt", "vault_password", "vault_password.txt", "vault-password.txt",
	// keys and key stores
	".ssh", ".gnupg", ".pki", "*.pem", "*.key", "*.p12", "*.pfx", "*.ppk", "*.kdb", "*.kdbx", "*.psafe3", "*.jks",
	"*.keystore", "*.p8", "*.pkcs12", "*.pk8", "*.keytab", "*.ovpn", "*.keychain", "*.keychain-db", "*.agilekeychain", "*.agekey",
	"deploy_key", "deploy-key", "private_key", ".config/sops/age", ".config/age",
	"id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*",
	"ssh_host_rsa_key", "ssh_host_dsa_key", "ssh_host_ecdsa_key", "ssh_host_ed25519_key",
	".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".1password", ".op", ".config/op",
	"Library/Keychains", ".bitcoin", ".electrum", ".ethereum", "wallet.dat", ".config/solana/id.json",
	// clouds and services
	".aws", "rootkey.csv", "accessKeys.csv", ".azure", "local.settings.json",
	".gcloud", ".config/gcloud", ".oci", ".aliyun", ".edgerc", ".ossutilconfig", ".cos.conf", ".bluemix", ".cf/config.json",
	".kube", "kubeconfig", "kubeconfig.yaml", "kubeconfig.yml", "kubeconfig.json", "kubeconfig-*", "*.kubeconfig",
	".docker", ".dockercfg", ".dockerconfigjson", ".config/containers/auth.json", "clouds.yaml",
	".config/doctl", ".config/hcloud", ".config/scw", ".config/linode-cli", ".config/rclone", ".config/configstore", ".config/heroku", ".config/netlify",
	".config/fastly", ".config/stripe", ".config/.wrangler", ".wrangler/config", ".cloudflared", ".fly/config.yml", ".supabase/access-token",
	".local/share/com.vercel.cli/auth.json", ".s3cfg", ".boto", ".mc/config.json", ".passwd-s3fs", ".databrickscfg", ".snowsql", ".snowflake",
	".kaggle", ".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface/token", ".dbt/profiles.yml", ".ngrok2", ".config/ngrok", "ngrok.yml",
	"credentials.json", "gcp-credentials.json", "google-credentials.json", "google_credentials.json", "aws-credentials.json", "firebase-credentials.json", "credentials.db", "application_default_credentials.json", "client_secret.json",
	"client_secrets.json", "client_secret_*", "gha-creds-*", "service-account.json", "service_account.json",
	"service-account-key.json", "service-account-file.json", "serviceAccount.json", "serviceAccountKey.json",
	"firebase-adminsdk.json", "gcp-key.json", "gcloud-service-key.json",
	"*.tfstate", "terraform.tfstate*", "*.tfvars", "*.tfvars.json", ".terraform.d/credentials*", ".terraformrc",
	"terraform.rc", ".pulumi/credentials.json", ".circleci/cli.yml", ".travis/config.yml", ".sentryclirc", ".chef", "credentials.xml",
	// sources and packages
	".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli", ".config/tea", ".subversion/auth",
	".npmrc", ".pypirc", ".cargo/credentials*", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml",
	".gradle/gradle.properties", ".composer/auth.json", ".config/composer/auth.json", ".nuget/nuget/nuget.config", ".hex/hex.config",
	// databases, web servers and file transfer
	".pgpass", "pgpass.conf", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".dbeaver-data-sources.xml", "credentials-config.json",
	"dataSources.local.xml", "robomongo.json", "wp-config.php", "LocalSettings.php", "sftp-config.json", ".ftpconfig", ".vscode/sftp.json",
	"filezilla.xml", "sitemanager.xml", "recentservers.xml", ".config/filezilla", "WinSCP.ini", ".smbcredentials", ".davfs2/secrets", "wg0.conf",
	// agents
	".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json", ".qwen/oauth_creds.json",
	".config/github-copilot", ".local/share/opencode/auth.json",
	// browsers, mail and chat
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/vivaldi", ".config/opera", "Library/Safari", "Library/Cookies", "Library/Mail", "Library/Messages",
	"Library/Application Support/Google/Chrome", "Library/Application Support/Firefox",
	"Library/Application Support/BraveSoftware", "Library/Application Support/Microsoft Edge",
	".authinfo", ".authinfo.gpg", ".fetchmailrc", ".msmtprc", ".mbsyncrc", ".offlineimaprc", ".muttrc",
	".purple/accounts.xml", "otr.private_key", ".irssi/config", ".config/hexchat", ".weechat/sec.conf",
}

// writeSensitive are names of files that other programs run, or that configure the
// programs they run.
var writeSensitive = []string{
	// version control
	".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/modules", ".git/worktrees", ".git/info/attributes", ".git/gitweb",
	".git/rebase-merge/git-rebase-todo", ".git/rebase-merge/strategy", ".git/rebase-apply/apply-opt", ".git/sequencer/opts",
	".gitmodules", ".gitattributes", ".gitconfig", ".config/git", ".hg/hgrc", ".hgrc", ".config/hg", ".jj/repo/config.toml", ".sl/config",
	".husky", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.yaml", ".lefthook.yaml",
	"lefthook-local.yml", ".lefthook-local.yml", "lefthook-local.yaml", ".lefthook-local.yaml", ".overcommit.yml",
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
	".vimrc", ".gvimrc", ".exrc", ".vim", ".lvimrc", ".nvimrc", ".nvim.lua", ".config/nvim", ".emacs", ".emacs.d", ".dir-locals.el", ".dir-locals-2.el",
	".gdbinit", ".lldbinit",
	// tools that read their settings from the folder they run in, or from home
	".cargo/config", ".cargo/config.toml", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", ".mise", ".rtx.toml", ".config/mise", ".tool-versions", ".asdfrc", ".ripgreprc",
	".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml", ".gemrc", ".irbrc", ".pryrc", ".Rprofile", ".psqlrc", ".sqliterc",
	".wgetrc", ".curlrc", ".mailcap", ".config/pip", ".bazelrc",
	// agents
	".claude", ".codex", ".agents", ".agent", ".gemini", ".antigravitycli", ".cursor", ".kiro", ".amazonq", ".opencode", "opencode.json", "opencode.jsonc", ".config/opencode",
	".crush", ".crush.json", "crush.json", ".windsurf", ".cline", ".clinerules/hooks", ".roo", ".kilocode", ".continue", ".copilot", ".qwen", ".qoder", ".goose", ".amp", ".factory",
	".augment", ".trae", ".junie", ".codebuddy", ".openhands", ".aider.conf.yml", ".mcp.json", "remit.yaml",
}

// writeAlone are names that are sensitive for writing, but not the contents of a
// folder of that name: a .git may be a file or a link that leads to
// another repository. A HEAD beside objects and refs makes a repository as well;
// whether it does, the file system says, see [tool.Action.Lead].
var writeAlone = []string{".git"}

// exceptions lists the ordinary names among those that a sensitive name with a * matches: examples without secrets, public
// keys, and the file of variables in Go's own folder. One * stands for anything.
var exceptions = map[string][]string{
	".env.*":      {".env.example", ".env.sample", ".env.template", ".env.dist"},
	".env-*":      {".env-example", ".env-sample", ".env-template"},
	"*.env":       {"example.env", "sample.env", "template.env", "go.env"},
	"id_rsa*":     {"id_rsa.pub"},
	"id_ecdsa*":   {"id_ecdsa.pub"},
	"id_ed25519*": {"id_ed25519.pub"},
}

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

// RepositoryFolders lists the folders of version control.
func RepositoryFolders() []string { return append([]string(nil), repositoryFolders...) }

// Examples lists the ordinary names that a name of [Sensitive] with a * matches.
func Examples() []string {
	out := slices.Concat(slices.Collect(maps.Values(exceptions))...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Sensitive lists the names that no wildcard of an allow or ask list matches
// for reading, or with write set for writing. A name
// with a slash is a folder and its contents. $REMIT_HOME is among them too,
// with everything below.
func Sensitive(write bool) []string {
	out := append([]string(nil), readSensitive...)
	if write {
		out = append(out, writeSensitive...)
	}
	return out
}

// SensitiveAlone lists the names that [Sensitive] leaves out because they are
// sensitive for writing only themselves, without their contents.
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
