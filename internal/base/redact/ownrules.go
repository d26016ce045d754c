package redact

// ownRules are formats that the generated rules lack. Each issuer publishes the prefix of its keys.
var ownRules = []keyRule{
	{privateKey, "", false, anyEnd, 0, pemHints, "", 0, nil},
	// Logins of Claude Code and other programs: sk-ant-oat01-, sk-ant-ort01-, sk-ant-sid02-.
	{"anthropic-token", `sk-ant-[a-z]{2,10}[0-9]{2}-[A-Za-z0-9_-]{60,300}`, true, wordEnd, 3.5, []string{"sk-ant-"}, "", 0, nil},
	{"atlassian-api-token", `ATATT3[A-Za-z0-9_\-=]{186}`, true, anyEnd, 3.5, []string{"atatt3"}, "", 0, nil},
	{"docker-access-token", `dckr_[po]at_[A-Za-z0-9_-]{27,32}`, true, wordEnd, 3, []string{"dckr_pat_", "dckr_oat_"}, "", 0, nil},
	{"figma-token", `fig[dour]{1,2}_[A-Za-z0-9_-]{40,46}`, true, wordEnd, 3.5, []string{"figd_", "figu_", "figo_", "figor_", "figur_"}, "", 0, nil},
	// Since April 2026 GitHub signs the tokens of installations: ghs_, the app's number, and a JWT.
	{"github-signed-token", `gh[su]_[0-9A-Za-z]{1,40}_eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`, true, anyEnd, 3, []string{"ghs_", "ghu_"}, "", 0, nil},
	{"google-oauth-client-secret", `GOCSPX-[A-Za-z0-9_-]{28}`, true, wordEnd, 3, []string{"gocspx-"}, "", 0, nil},
	{"groq-api-key", `gsk_[A-Za-z0-9]{52}`, true, wordEnd, 3.5, []string{"gsk_"}, "", 0, nil},
	{"langsmith-api-key", `lsv2_[ps][tk]_[a-f0-9]{32}_[a-f0-9]{10}`, true, wordEnd, 3, []string{"lsv2_"}, "", 0, nil},
	{"nvidia-api-key", `nvapi-[A-Za-z0-9_-]{64}`, true, wordEnd, 3.5, []string{"nvapi-"}, "", 0, nil},
	{"openrouter-api-key", `sk-or-v1-[a-f0-9]{64}`, true, wordEnd, 3, []string{"sk-or-v1-"}, "", 0, nil},
	{"replicate-api-token", `r8_[A-Za-z0-9]{37}`, true, wordEnd, 3.5, []string{"r8_"}, "", 0, nil},
	// Of people in the browser.
	{"slack-browser-token", `xoxc-(?:[0-9]{8,14}-){2,3}[a-f0-9]{64}`, true, wordEnd, 3, []string{"xoxc-"}, "", 0, nil},
	{"standard-webhook-secret", `whsec_[A-Za-z0-9+/]{32,88}={0,2}`, true, base64End, 3.5, []string{"whsec_"}, "", 0, nil}, // Stripe, Clerk, Svix
	{"supabase-secret-key", `sb(?:p_[a-f0-9]{40}|_secret_[A-Za-z0-9_-]{31})`, true, wordEnd, 3, []string{"sbp_", "sb_secret_"}, "", 0, nil},
	{"tailscale-key", `tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{11,17}-[A-Za-z0-9]{22,40}`, true, wordEnd, 3.5, []string{"tskey-"}, "", 0, nil},
	{"xai-api-key", `xai-[A-Za-z0-9]{80}`, true, wordEnd, 3.5, []string{"xai-"}, "", 0, nil},
}
