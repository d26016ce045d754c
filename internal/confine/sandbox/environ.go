package sandbox

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	shell "github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Environ is the whole environment of a command: getenv gives Remit's own variables, home
// and tmp are the command's folders.
func Environ(getenv func(string) (string, bool), img *Image, chain policy.Chain, l policy.Limits, c Command, home, tmp string) ([]string, error) {
	vars := map[string]string{"LANG": "C.UTF-8"}
	if img != nil {
		for _, kv := range img.Env {
			name, v, _ := strings.Cut(kv, "=")
			vars[name] = v
		}
	}
	listed := append(slices.Clone(l.Env), "TERM", "TZ")
	if c.Stdio != nil && c.Stdio.Terminal != nil {
		listed = append(listed, "COLORTERM")
	}
	for _, name := range listed {
		if v, ok := getenv(name); ok && !strings.ContainsRune(v, 0) {
			vars[name] = v
		}
	}
	for name, v := range c.Env {
		why := ""
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00") || dangerous(name):
			why = "it would change which code runs"
		case !slices.Contains(l.Env, name): // a variable in the policy is the operator's choice
			why = shell.Assignable(name, l.ToolEnv("", ""))
		}
		if why != "" {
			return nil, fault.New(fault.HandleRefused, "the variable %q cannot be given: %s", name, why)
		}
		vars[name] = v
	}
	for name, v := range l.Values {
		if given, ok := c.Env[name]; ok && given != v {
			return nil, fault.New(fault.HandleRefused, "the variable %q cannot be given: the policy gives it another value", name)
		}
		vars[name] = v
	}
	if !slices.Contains(listed, "GIT_CONFIG_COUNT") {
		for i, kv := range gitSettings {
			n := strconv.Itoa(i)
			vars["GIT_CONFIG_KEY_"+n], vars["GIT_CONFIG_VALUE_"+n] = kv[0], kv[1]
		}
		vars["GIT_CONFIG_COUNT"] = strconv.Itoa(len(gitSettings))
	}
	vars["HOME"], vars["TMPDIR"], vars["PATH"] = home, tmp, strings.Join(l.Path, ":")
	if own := chain.Own(); own != "" && own != c.Scratch {
		vars[WorkVariable] = own
		probe := tool.Action{Kind: tool.FileWrite, Path: path.Join(own, AnyName), Real: path.Join(own, AnyName)}
		if chain.DecideAction(probe).Effect == policy.Allow {
			vars["HOME"] = own // else nothing could be kept there
		}
	}
	out := make([]string, 0, len(vars))
	for name, v := range vars {
		out = append(out, name+"="+v)
	}
	slices.Sort(out)
	return out, nil
}

// WithAccount adds the name of the account that a command runs as to an environment that has none.
func WithAccount(env []string, account string) []string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			env = append(env, name+"="+account)
		}
	}
	slices.Sort(env)
	return env
}

// gitSettings keep Git from running programs that a repository names: hooks, a
// file system monitor, programs that ask for passwords, transports that are commands;
// and from taking a folder for a bare repository. Git also compares no owners, which differ in a
// sandbox: else it reads every file anew, and shows one that it may not read as changed. They win over every file of Git's. A
// policy that lists GIT_CONFIG_COUNT in commands.env sets its own.
var gitSettings = [...][2]string{
	{"safe.bareRepository", "explicit"},
	{"core.fsmonitor", "false"},
	{"core.checkStat", "minimal"},
	{"core.hooksPath", "/dev/null"},
	{"core.sshCommand", "ssh"},
	{"core.askPass", ""},
	{"core.alternateRefsCommand", "true"},
	{"protocol.ext.allow", "never"},
	{"gpg.program", "gpg"},
	{"gpg.x509.program", "gpgsm"},
	{"gpg.ssh.program", "ssh-keygen"},
}

// dangerous names make loaders, shells and interpreters run other code.
func dangerous(name string) bool {
	for _, p := range []string{"LD_", "DYLD_", "GIT_", "BASH_FUNC_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return slices.Contains([]string{"BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS", "PS4", "GCONV_PATH", "NODE_OPTIONS", "NODE_PATH",
		"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "PERL5LIB", "PERL5OPT", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS",
		"_JAVA_OPTIONS", "LOCPATH", "NLSPATH", "HOSTALIASES", "RES_OPTIONS"}, name) || slices.Contains(SetVariables(), name)
}

// AddSecrets adds to a command's environment the variables that the policies say its tool's
// processes are given, from find, and reports whether there are any. Such a command shares
// its sandbox with no other one, which could read them there.
func AddSecrets(p permit.Permit, c Command, find func(key string) (string, bool), env []string) (with []string, added bool, err error) {
	list, err := p.Chain().EnvSecrets(p.Tool())
	if err != nil || len(list) == 0 {
		return env, false, err
	}
	for _, s := range list {
		if _, brought := c.Env[s.Env]; brought || dangerous(s.Env) {
			return nil, false, fault.New(fault.HandleRefused, "the variable %q is to hold the secret %q, and cannot", s.Env, s.Store).
				WithHint("a call cannot set it, and it must be none that changes which code runs")
		}
		value, ok := "", false
		if find != nil {
			value, ok = find(s.Key())
		}
		if !ok || value == "" || strings.ContainsRune(value, 0) {
			return nil, false, fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret %q is not in the store", s.Store).ForOperator("set it with remit secret set %s", s.Store)
		}
		env = slices.DeleteFunc(env, func(pair string) bool { return strings.HasPrefix(pair, s.Env+"=") })
		env = append(env, s.Env+"="+value)
	}
	slices.Sort(env)
	return env, true, nil
}
