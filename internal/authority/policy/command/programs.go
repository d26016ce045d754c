package command

import (
	"strings"
	"sync"
)

// program describes how a known program starts another one that its arguments
// name. A program without an entry is judged by its own name alone, and the
// sandbox bounds its effects.
//
// The options are those of GNU coreutils, findutils and util-linux. An unlisted
// option makes the started command unknown, so a forgotten option leads to a
// refusal.
type program struct {
	// The words before the started command.
	flags    string   // short options without a value
	values   string   // short options with one, attached or the next word
	optional string   // short options with a value only if it is attached
	long     []string // long options: "name", "name=" with a value, "name=?" with one only after =
	operands int      // words between the options and the command
	assigns  bool     // NAME=VALUE words may precede the command
	digits   bool     // -5 is an option

	// run says how to find the started command in the words that remain after the
	// options above.
	run way

	// free programs have arguments of their own kind: run gets them all.
	free bool

	// never is the reason why the started command can never be determined.
	never string

	// hooks are options that name a program to start, anywhere among the
	// arguments: "-x" also bundled, "--long" also abbreviated.
	hooks []string
	// plain are long options that begin like a hook but are not hooks.
	plain []string
	// words are beginnings of words that make the program start another one, or
	// read the command to start from elsewhere.
	words []string
}

// way is how a program's remaining words name the started command.
type way uint8

const (
	byInner way = iota // they are the command
	byEnv
	byFlock
	byWatch
	byXargs
	byFind
	byShell
	byGit
	byGdb
	bySed
	byAwk
	byTmux
	bySu
	byScript
	byRsync
	byHg
)

const (
	otherRoot = "it starts commands under another root, identity or namespace"
	later     = "it starts commands later, outside of this call"
	readsCmds = "it takes the commands to start from input, files or a format of its own"
)

// programs are keyed by base name, and made when a command is first looked at.
var programs = sync.OnceValue(func() map[string]*program { return table(programList) })

var programList = []entry{
	{"env", program{flags: "i0v", values: "uC", assigns: true,
		long: []string{"ignore-environment", "null", "debug", "unset=", "chdir=", "block-signal=?", "default-signal=?", "ignore-signal=?"},
		run:  byEnv}},
	{"nice", program{values: "n", digits: true, long: []string{"adjustment="}}},
	{"ionice", program{flags: "t", values: "cn", long: []string{"class=", "classdata=", "ignore"}}},
	{"nohup setsid", program{flags: "cfw", long: []string{"ctty", "fork", "wait"}}},
	{"timeout", program{flags: "pfv", values: "ks", operands: 1,
		long: []string{"preserve-status", "foreground", "verbose", "kill-after=", "signal="}}},
	{"time", program{flags: "pvq", values: "f", long: []string{"portability", "verbose", "quiet", "format="}}},
	{"stdbuf", program{values: "ioe", long: []string{"input=", "output=", "error="}}},
	{"chrt", program{flags: "abfiorRv", operands: 1, long: []string{"batch", "fifo", "idle", "other", "rr", "all-tasks", "verbose"}}},
	{"taskset", program{flags: "ac", operands: 1, long: []string{"all-tasks", "cpu-list"}}},
	{"unshare", program{flags: "imnpuUCTfrc"}},
	{"strace ltrace", program{flags: "cCdfFhiqrtTvVwxyYkD", values: "easpPSXIb"}},
	{"sudo doas", program{flags: "bEHnPSA", values: "ugp", assigns: true}},
	{"command", program{run: byInner}},
	{"busybox toybox", program{run: byInner}},
	{"flock", program{flags: "sxeunoFv", values: "wE", operands: 1,
		long: []string{"shared", "exclusive", "unlock", "nonblock", "nb", "wait=", "timeout=", "conflict-exit-code=", "close", "no-fork", "verbose"},
		run:  byFlock}},
	{"watch", program{flags: "bcdegtwpCrx", values: "nq", long: []string{"exec", "interval=", "differences=?", "errexit", "chgexit", "no-title", "color", "beep", "precise"},
		run: byWatch}},
	{"xargs", program{flags: "0rtxop", values: "adEILnPs", optional: "eil",
		long: []string{"null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty", "arg-file=", "delimiter=", "max-args=",
			"max-procs=", "max-chars=", "process-slot-var=", "max-lines=?", "replace=?", "eof=?"},
		run: byXargs}},
	{"find", program{free: true, run: byFind}},
	{"sh bash dash ash ksh mksh rbash", program{free: true, run: byShell}},
	{"git", program{free: true, run: byGit}},
	{"gdb", program{free: true, run: byGdb}},
	{"sed gsed", program{free: true, run: bySed}},
	{"awk gawk mawk nawk original-awk", program{free: true, run: byAwk}},
	{"tmux", program{free: true, run: byTmux}},
	{"su", program{free: true, run: bySu}},
	{"script", program{free: true, run: byScript}},
	{"rsync", program{free: true, run: byRsync}},
	{"hg", program{free: true, run: byHg}},

	{`runuser sudoedit pkexec chroot nsenter setpriv capsh newgrp sg bwrap firejail setarch linux32 linux64
		i386 x86_64 uname26 proot fakechroot gosu su-exec setuidgid chpst cgexec ksu arch-nspawn systemd-nspawn machinectl`, program{never: otherRoot}},
	{"at batch crontab systemd-run start-stop-daemon xdg-open sensible-browser gio daemonize daemon", program{never: later}},
	{`parallel run-parts entr zsh fish csh tcsh screen expect unbuffer xvfb-run fakeroot prlimit numactl ld.so
		chronic ifne pee rlwrap eatmydata faketime torsocks proxychains proxychains4 ssh-agent dbus-run-session dbus-launch
		systemd-inhibit choom uclampset coresched openvt valgrind catchsegv perf tini dumb-init envdir softlimit
		aa-exec cpulimit logsave multitime pexec grc genie torify runscript sshpass gtester hyperfine setlock tmate byobu service
		rlogin rsh xdotool cdist distcc ccache sccache msgfilter m4 dc sftp ftp lftp ncftp psftp tftp smbclient telnet socat openvpn
		mail mailx mutt run-mailcap see logrotate debugfs crash scanmem tdbtool ginsh agetty bconsole minicom acr asterisk bashbug bee
		check_by_ssh check_ssl_cert dnsmasq easyrsa fail2ban-client fastfetch forge jtag mosh-server needrestart plymouth procmail rsyslogd
		sqlmap sshuttle wg-quick xdg-user-dir`, program{never: readsCmds}},

	{"tar", program{hooks: []string{"-I", "-F", "--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command",
		"--info-script", "--new-volume-script", "--rmt-command"}, plain: []string{"--checkpoint"}}},
	{"cpio", program{hooks: []string{"--rsh-command", "--rmt-command"}}},
	{"sort", program{hooks: []string{"--compress-program"}}},
	{"split", program{hooks: []string{"--filter"}}},
	{"zip", program{hooks: []string{"-T", "--unzip-command"}}},
	{"rg", program{hooks: []string{"--pre", "--hostname-bin"}, plain: []string{"--pre-glob"}}},
	{"fd fdfind", program{hooks: []string{"-x", "-X", "--exec", "--exec-batch"}}},
	{"ssh", program{hooks: []string{"-o", "-F", "-I"}}},
	{"scp", program{hooks: []string{"-o", "-F", "-S", "-D", "-I"}}},
	{"ssh-keygen ssh-add ssh-copy-id sshfs", program{hooks: []string{"-o", "-D", "-s", "-F", "-w"}}},
	{"mosh", program{hooks: []string{"--ssh", "--server", "--client"}}},
	{"nc ncat netcat", program{hooks: []string{"-e", "-c", "--exec", "--sh-exec", "--lua-exec"}}},
	{"nmap", program{hooks: []string{"--script", "--interactive", "--datadir"}, words: []string{"-sC", "-A"}}},
	{"tcpdump", program{hooks: []string{"-z"}}},
	{"tshark dumpcap wireshark", program{hooks: []string{"-X"}}},
	{"pidstat", program{hooks: []string{"-e"}}},
	{"ip", program{words: []string{"net", "vr", "-b"}}},
	{"busctl", program{hooks: []string{"--address"}}},
	{"wget", program{hooks: []string{"-e", "--execute", "--use-askpass", "--config"}}},
	{"aria2c", program{words: []string{"--on-", "--conf"}}},
	{"diff3 sdiff", program{hooks: []string{"--diff-program"}}},
	{"install ginstall", program{hooks: []string{"--strip-program"}}},
	{"man", program{hooks: []string{"-P", "-H", "-C", "--pager", "--html", "--config-file"}}},
	{"bat batcat", program{hooks: []string{"--pager"}}},
	{"fzf", program{hooks: []string{"--preview", "--bind"}, plain: []string{"--preview-window"}}},
	{"groff troff nroff pic eqn tbl", program{hooks: []string{"-U"}}},
	{"enscript", program{hooks: []string{"-I", "--filter"}}},
	{"cowsay cowthink", program{hooks: []string{"-f"}}},
	{"csvtool", program{words: []string{"call"}}},
	{"tex latex pdftex pdflatex xetex xelatex latexmk", program{words: []string{"-shell", "--shell", "-enable-write18", "--enable-write18", "-e", "-r", "-pdflatex", "-latex"}}},
	{"dvips", program{words: []string{"-R0"}}},
	{compilers, program{words: []string{"-wrapper", "--wrapper", "-fplugin", "-fpass-plugin", "-specs", "--specs", "-B", "--prefix", "-Xclang", "-load", "-fuse-ld", "--ld-path", "-Wl,-plugin", "-Wl,--plugin", "@"}}},
	{"ld ld.bfd ld.gold ld.lld", program{words: []string{"-plugin", "--plugin", "@"}}},
	{"svn", program{hooks: []string{"--diff-cmd", "--diff3-cmd", "--editor-cmd", "--config-option", "--config-dir"}}},
	{"borg", program{hooks: []string{"--rsh", "--remote-path"}}},
	{"restic rclone", program{hooks: []string{"-o", "--option", "--password-command"}, plain: []string{"--password-file"}}},
	{"yt-dlp youtube-dl", program{hooks: []string{"--exec", "--exec-before-download", "--downloader", "--external-downloader", "--config-locations",
		"--plugin-dirs", "--use-postprocessor", "--netrc-cmd"}, plain: []string{"--no-exec"}}},
	{"scrot", program{hooks: []string{"-e", "--exec"}}},
	{"sysctl", program{hooks: []string{"-w", "-p", "--write", "--load", "--system"}}},
	{"zic", program{hooks: []string{"-y"}}},
	{"rustc rustdoc", program{words: []string{"linker=", "link-arg=", "link-args=", "-Clink", "--codegen=link", "-Z", "--sysroot", "--test-builder", "--runtool", "--test-runtool", "@"}}},
	{"certbot", program{hooks: []string{"--pre-hook", "--post-hook", "--deploy-hook", "--renew-hook", "--manual-auth-hook", "--manual-cleanup-hook"}}},
	{"go", program{hooks: []string{"--exec", "--toolexec", "--vettool"}}},
}

// compilers start other programs for each step, and options can choose these
// programs.
const compilers = "gcc g++ cc c++ c89 c99 cpp clang clang++ gfortran"

type entry struct {
	names string
	program
}

func table(entries []entry) map[string]*program {
	m := map[string]*program{}
	for i := range entries {
		for _, n := range strings.Fields(entries[i].names) {
			m[n] = &entries[i].program
		}
	}
	return m
}

// options are what a program's own options were.
type options struct {
	program
	seen map[string]string // by letter or long name, the last value
}

func (o *options) has(names ...string) bool {
	for _, n := range names {
		if _, ok := o.seen[n]; ok {
			return true
		}
	}
	return false
}

// scan reads a program's own words. why is not empty if they cannot be read.
func (p *program) scan(args []string, assign func(name, value string) string) (o *options, rest []string, why string) {
	o = &options{program: *p, seen: map[string]string{}}
	for len(args) > 0 {
		w := args[0]
		switch {
		case nonLiteral(w) && p.assigns && strings.Contains(begins(w), "="), nonLiteral(w) && !p.assigns && !mayBeOption(w):
			return o.after(args, assign)
		case nonLiteral(w):
			return nil, nil, "an option is not literal"
		case w == "--":
			args = args[1:]
			return o.after(args, assign)
		case strings.HasPrefix(w, "--"):
			args, why = o.longOption(args)
		case len(w) > 1 && w[0] == '-':
			args, why = o.shortOptions(args)
		case w == "-" && p.assigns:
			args = args[1:] // env's other spelling of -i
		default:
			return o.after(args, assign)
		}
		if why != "" {
			return nil, nil, why
		}
	}
	return o, nil, ""
}

// after reads the assignments and operands behind the options.
func (o *options) after(args []string, assign func(name, value string) string) (*options, []string, string) {
	for o.assigns && len(args) > 0 && !isMany(args[0]) {
		name, value, ok := strings.Cut(begins(args[0]), "=")
		if !ok {
			break
		}
		if nonLiteral(args[0]) {
			value = NonLiteral
		}
		if why := assign(name, value); why != "" {
			return nil, nil, why
		}
		args = args[1:]
	}
	for range o.operands {
		if len(args) == 0 {
			return o, nil, ""
		}
		if isMany(args[0]) {
			return nil, nil, "it is not literal how many words come before the command"
		}
		if mayBeOption(args[0]) && nonLiteral(args[0]) {
			return nil, nil, "a word before the command is not literal"
		}
		args = args[1:]
	}
	return o, args, ""
}

func (o *options) longOption(args []string) ([]string, string) {
	name, value, attached := strings.Cut(args[0][2:], "=")
	for _, l := range o.long {
		plain, opt := strings.TrimSuffix(l, "="), strings.TrimSuffix(l, "=?")
		switch {
		case l == name && !attached, opt == name && opt != l:
			o.seen[name] = value
			return args[1:], ""
		case plain == name && plain != l:
			if attached {
				o.seen[name] = value
				return args[1:], ""
			}
			return o.value(name, args[1:])
		}
	}
	return nil, "its option --" + name + " is not one that is known to be harmless"
}

func (o *options) shortOptions(args []string) ([]string, string) {
	w := args[0][1:]
	if o.digits && strings.Trim(w, "0123456789-+") == "" {
		return args[1:], ""
	}
	for i := range len(w) {
		c := w[i : i+1]
		switch {
		case strings.Contains(o.flags, c):
			o.seen[c] = ""
		case strings.Contains(o.optional, c):
			o.seen[c] = w[i+1:]
			return args[1:], ""
		case strings.Contains(o.values, c) && i+1 < len(w):
			o.seen[c] = w[i+1:]
			return args[1:], ""
		case strings.Contains(o.values, c):
			return o.value(c, args[1:])
		default:
			return nil, "its option -" + c + " is not one that is known to be harmless"
		}
	}
	return args[1:], ""
}

func (o *options) value(name string, args []string) ([]string, string) {
	if len(args) == 0 {
		return nil, "its option " + name + " lacks a value"
	}
	if isMany(args[0]) {
		return nil, "the value of its option " + name + " may be several words"
	}
	o.seen[name] = args[0]
	return args[1:], ""
}

// hooked finds an option that names a program to start.
func (p *program) hooked(args []string) string {
	for i, w := range args {
		if nonLiteral(w) {
			continue // whether it could be a hook is checked in hooks
		}
		for _, b := range p.words {
			if strings.HasPrefix(w, b) {
				return w
			}
		}
		for _, h := range p.hooks {
			if isHook(h, w, p.plain, i == 0) {
				return h
			}
		}
	}
	return ""
}

func isHook(hook, w string, plain []string, first bool) bool {
	if !strings.HasPrefix(hook, "--") {
		bundle := strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--")
		// tar's first word may be a bundle without a dash.
		return (bundle || first && hook == "-I" || first && hook == "-F") && strings.Contains(w, hook[1:])
	}
	name, _, _ := strings.Cut(w, "=")
	if !strings.HasPrefix(name, "-") || name == "-" || name == "--" {
		return false
	}
	for _, p := range plain {
		if name == p {
			return false
		}
	}
	if !strings.HasPrefix(name, "--") { // go's single dash
		return "-"+name == hook
	}
	return strings.HasPrefix(hook, name) && len(name) > 3
}
